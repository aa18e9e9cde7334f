// SPDX-License-Identifier: Apache-2.0
// Notes and lint of files that are not what they should be. The file under the knife is the frozen
// plugin: cut at every length and with flipped bytes it is read or refused, and never more.
#include "core/plugin/notes.hpp"

#include <elf.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "core/base/error.hpp"
#include "core/base/io.hpp"
#include "core/device/launch_facts.hpp"
#include "core/plugin/device_code.hpp"
#include "core/plugin/libraries.hpp"
#include "core/tensor/random.hpp"
#include "fk/plugin.h"
#include "test/catch.hpp"

namespace {

const std::filesystem::path kFrozenFile =
    std::filesystem::path(FK_ABI_DIR) / "frozen/c/silu_and_mul.v1.so";

class Folder {
 public:
  Folder() {
    char name[] = "/tmp/fk_notes_XXXXXX";
    path_ = mkdtemp(name);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::filesystem::path write(const std::string& name, const std::string& bytes) const {
    fk::write_file_atomic(path_ / name, bytes);
    return path_ / name;
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

std::string why(const std::filesystem::path& file) {
  return message_of<fk::Error>([&] { fk::read_notes(file); });
}

// The plugin's note inside the image, to be changed in place.
fk_note_plugin* note_of(std::string& image) {
  for (size_t at = 0; at + sizeof(fk_note_plugin) < image.size(); at += 4) {
    auto* note = reinterpret_cast<fk_note_plugin*>(image.data() + at);
    if (note->name_bytes == 4 && note->type == FK_NOTE_PLUGIN &&
        note->desc_bytes == sizeof(fk_note_plugin) - 16 && !std::memcmp(note->owner, "FK\0\0", 4))
      return note;
  }
  return nullptr;
}

// Neither may do anything but return or throw Error.
void survive(const std::filesystem::path& file) {
  try {
    fk::read_notes(file);
  } catch (const fk::Error&) {
  }
  try {
    fk::lint(file, fk::Trust::candidate);
  } catch (const fk::Error&) {
  }
}

struct Environment {
  Environment(const char* name, const std::string& value) : name_(name) {
    setenv(name, value.c_str(), 1);
  }
  ~Environment() { unsetenv(name_); }
  const char* name_;
};

}  // namespace

TEST_CASE("notes_say_what_a_plugin_is_and_lint_finds_nothing") {
  const fk::PluginNote note = fk::read_notes(kFrozenFile);
  CHECK(note.abi_major == FK_ABI_MAJOR);
  REQUIRE(note.ops.size() == 1);
  CHECK(note.ops[0].op == "silu_and_mul");
  for (const auto& finding : fk::lint(kFrozenFile, fk::Trust::candidate)) {
    INFO(finding.text);
    CHECK_FALSE(finding.fatal);
  }
}

TEST_CASE("notes_refusals_say_what_is_wrong") {
  const Folder folder;
  CHECK_THAT(why("/nowhere/x.so"), ContainsSubstring("No such file"));
  CHECK_THAT(why(folder.path()), ContainsSubstring("not a regular file"));
  CHECK_THAT(why(folder.write("empty.so", "")), ContainsSubstring("not an ELF file"));
  CHECK_THAT(why(folder.write("text.so", "#!/bin/sh\n")), ContainsSubstring("not an ELF file"));
  CHECK_THAT(why("/proc/self/exe"), ContainsSubstring("not a shared object"));
  std::string image = fk::read_file(kFrozenFile);
  CHECK_THAT(why(folder.write("cut.so", image.substr(0, image.size() / 2))),
             ContainsSubstring("truncated"));
  const auto patched = [&](size_t at, char value) {
    std::string other = image;
    other[at] = value;
    return folder.write("patched.so", other);
  };
  CHECK_THAT(why(patched(4, 1)), ContainsSubstring("64-bit"));         // EI_CLASS
  CHECK_THAT(why(patched(5, 2)), ContainsSubstring("little-endian"));  // EI_DATA
  CHECK_THAT(why(patched(16, 1)), ContainsSubstring("an object file"));
  CHECK_THAT(why(patched(18, 3)), ContainsSubstring("32-bit x86"));  // e_machine

  std::string major = image;
  REQUIRE(note_of(major));
  note_of(major)->abi_major = 2;
  CHECK_THAT(why(folder.write("v2.so", major)),
             ContainsSubstring("built for fk_plugin_v2, this host speaks v0 and v1"));
  std::string name = image;
  std::memset(note_of(name)->name, 'a', sizeof note_of(name)->name);
  CHECK_THAT(why(folder.write("name.so", name)), ContainsSubstring("garbled notes"));
  std::string slash = image;
  std::strcpy(note_of(slash)->name, "../../etc");
  CHECK_THAT(why(folder.write("slash.so", slash)), ContainsSubstring("no name of a plugin"));
  std::string other = image;
  std::memcpy(note_of(other)->owner, "GO\0\0", 4);
  CHECK_THAT(why(folder.write("other.so", other)), ContainsSubstring("no FK_PLUGIN"));
  std::string longer = image;
  note_of(longer)->desc_bytes = 0x7fffffff;
  CHECK_THAT(why(folder.write("longer.so", longer)), ContainsSubstring("garbled notes"));
}

TEST_CASE("notes_survive_every_cut_and_flipped_bytes") {
  const Folder folder;
  const std::string image = fk::read_file(kFrozenFile);
  for (size_t cut = 0; cut < image.size(); cut += cut < 1024 ? 7 : 509)
    survive(folder.write("cut.so", image.substr(0, cut)));
  fk::Random random(7);
  for (int round = 0; round < 2000; ++round) {
    std::string other = image;
    // Headers, notes, hash table, symbols and the dynamic segment all lie in what is flipped.
    for (int64_t flips = random.integer(1, 6); flips > 0; --flips) {
      const bool head = random.integer(0, 2) == 0;
      const auto at = static_cast<size_t>(
          random.integer(head ? 4 : 0, head ? 2048 : static_cast<int64_t>(other.size())));
      other[at] = random.integer(0, 3) ? static_cast<char>(random.integer(-128, 128)) : '\xff';
    }
    survive(folder.write("flipped.so", other));
  }
  SUCCEED("no crash");
}

namespace {

// A plugin whose headers can be changed.
struct Patched {
  std::string image = fk::read_file(kFrozenFile);
  Elf64_Phdr* segment(uint32_t type) {
    auto* const head = reinterpret_cast<Elf64_Ehdr*>(image.data());
    auto* const all = reinterpret_cast<Elf64_Phdr*>(image.data() + head->e_phoff);
    return std::find_if(all, all + head->e_phnum, [&](const auto& s) { return s.p_type == type; });
  }
  Elf64_Dyn* entry(int64_t tag) {
    auto* at = reinterpret_cast<Elf64_Dyn*>(image.data() + segment(PT_DYNAMIC)->p_offset);
    while (at->d_tag != tag && at->d_tag != DT_NULL) ++at;
    REQUIRE(at->d_tag == tag);
    return at;
  }
  // A header that nobody needs becomes a segment at the file's end, of so many bytes.
  void add_segment(const std::string& bytes, uint64_t address) {
    image.resize((image.size() + 4095) / 4096 * 4096);
    const uint64_t size = bytes.size();
    *segment(PT_GNU_EH_FRAME) = {PT_LOAD, PF_R, image.size(), address, address, size, size, 4096};
    image += bytes;
  }
  std::string findings(const Folder& folder) const {
    std::string out;
    for (const auto& f : fk::lint(folder.write("patched.so", image), fk::Trust::candidate))
      if (f.fatal) out += f.rule + ": " + f.text + "\n";
    return out;
  }
};

constexpr uint64_t kFar = 0x100000;

}  // namespace

// Each note is a list of cases that are judged.
TEST_CASE("notes_name_an_op_once") {
  const Folder folder;
  Patched image;
  const Elf64_Phdr notes = *image.segment(PT_NOTE);
  std::string twice = image.image.substr(notes.p_offset, notes.p_filesz);
  twice += twice.substr(twice.size() - sizeof(fk_note_op));  // the last one is an op's
  image.segment(PT_NOTE)->p_offset = image.image.size();
  image.segment(PT_NOTE)->p_filesz = twice.size();
  image.image += twice;
  const std::string said = why(folder.write("twice.so", image.image));
  CHECK_THAT(said, ContainsSubstring("two notes of the op `silu_and_mul`"));
}

// Notes of a later minor may be longer, and what is known of them is read.
TEST_CASE("notes_may_grow_at_their_end") {
  const Folder folder;
  Patched image;
  const Elf64_Phdr notes = *image.segment(PT_NOTE);
  const std::string old = image.image.substr(notes.p_offset, notes.p_filesz);
  const auto grown = [&](size_t at, size_t bytes) {
    std::string note = old.substr(at, bytes);
    const auto longer = static_cast<uint32_t>(bytes - 16 + 8);
    std::memcpy(note.data() + 4, &longer, sizeof longer);
    return note + std::string(8, '\x7f');
  };
  const size_t plugin = old.find("FK") - 12;
  std::string all = grown(plugin, sizeof(fk_note_plugin)) +
                    grown(old.size() - sizeof(fk_note_op), sizeof(fk_note_op));
  image.segment(PT_NOTE)->p_offset = image.image.size();
  image.segment(PT_NOTE)->p_filesz = all.size();
  image.image += all;
  const fk::PluginNote note = fk::read_notes(folder.write("grown.so", image.image));
  CHECK(note.name == "frozen_c");
  REQUIRE(note.ops.size() == 1);
  CHECK(note.ops[0].hash == fk::read_notes(kFrozenFile).ops[0].hash);
}

// The lint must read the same bytes as the loader.
TEST_CASE("lint_reads_what_the_loader_reads") {
  const Folder folder;
  CHECK(Patched().findings(folder).empty());
  // The header's offset leads to an innocent copy, its address to what is loaded.
  Patched copy;
  Elf64_Phdr* const dynamic = copy.segment(PT_DYNAMIC);
  const uint64_t at = copy.image.size();
  copy.image += copy.image.substr(dynamic->p_offset, dynamic->p_filesz);
  copy.entry(DT_NEEDED)->d_tag = DT_RPATH;
  copy.segment(PT_DYNAMIC)->p_offset = at;
  CHECK_THAT(copy.findings(folder), ContainsSubstring("search_path"));
  // The loader takes the last of two entries.
  Patched twice;
  twice.entry(DT_RELACOUNT)->d_tag = DT_STRTAB;
  CHECK_THAT(message_of<fk::Error>([&] { twice.findings(folder); }),
             ContainsSubstring("two dynamic entries"));
  // It also takes the last of two segments in one place.
  Patched over;
  over.add_segment(std::string(4096, 'x'), 0);
  CHECK_THAT(message_of<fk::Error>([&] { over.findings(folder); }),
             ContainsSubstring("over each other"));
  Patched stack;
  stack.segment(PT_GNU_STACK)->p_type = PT_NULL;
  CHECK_THAT(stack.findings(folder), ContainsSubstring("executable_stack"));
}

// No plugin has its own communicator, not even a baseline. A folder in the name hides nothing.
TEST_CASE("lint_refuses_communicators_of_anybody") {
  const Folder folder;
  for (const auto trust : {fk::Trust::candidate, fk::Trust::baseline}) {
    for (const std::string other : {"libnccl.s", "/libnccl."}) {  // the second one with a folder
      CAPTURE(other);
      Patched linked;
      const std::string name = "libm.so.6";
      linked.image.replace(linked.image.find(name + '\0'), name.size(), other);
      const auto found = fk::lint(folder.write("linked.so", linked.image), trust);
      CHECK(std::any_of(found.begin(), found.end(), [](const auto& f) {
        return f.fatal && f.rule == "needed" && f.text.find("communicator") != f.text.npos;
      }));
    }
  }
}

// They are loaded before a process is sealed.
TEST_CASE("libraries_of_a_candidate_are_the_systems_own") {
  const Folder folder;
  Patched path;
  const auto before = fk::legal_libraries(folder.write("patched.so", path.image));
  REQUIRE(std::count(before.begin(), before.end(), "libm.so.6") == 1);
  // A folder libm.so. and a file in it, and somebody's own file.
  for (const std::string& other : std::vector<std::string>{"libm.so./", "libm.so.x"}) {
    CAPTURE(other);
    Patched named = path;
    const std::string name = "libm.so.6";
    named.image.replace(named.image.find(name + '\0'), name.size(), other);
    CHECK_THAT(named.findings(folder), ContainsSubstring("needs `" + other + "`"));
    const auto after = fk::legal_libraries(folder.write("patched.so", named.image));
    CHECK(after.size() + 1 == before.size());
    CHECK(std::count(after.begin(), after.end(), other) == 0);
  }
}

TEST_CASE("names_of_libraries_that_a_candidate_may_link") {
  for (const char* name :
       {"libc.so.6", "libstdc++.so.6", "libstdc++.so.6.0.33", "libgomp.so.1", "libmvec.so.1",
        "libcudart.so.12", "libcudart.so.11.0", "ld-linux-x86-64.so.2"})
    CHECK(fk::may_link(name));
  for (const char* name :
       {"libm.so", "libm.so.${LIB}.so", "libm.so.6$LIB", "libm.so.evil", "libm.so.6/mine.so",
        "ld-linux-mine.so", "libpthread.sox", "libcublas.so.12", "", "mine.so"})
    CHECK_FALSE(fk::may_link(name));
}

TEST_CASE("lint_spends_neither_time_nor_memory_on_what_no_library_has") {
  const Folder folder;
  // A hash chain through zeros, and many symbols with one long name.
  Patched chain;
  const uint32_t head[] = {1, 1, 1, 0, 0, 0, 1};
  std::string hash(size_t{8} << 20, '\0');
  std::memcpy(hash.data(), head, sizeof head);
  chain.add_segment(hash, kFar);
  chain.entry(DT_GNU_HASH)->d_un.d_ptr = kFar;
  CHECK_THAT(chain.findings(folder), ContainsSubstring("symbols"));

  Patched names;
  constexpr size_t kCount = 20'000, kTexts = 64, kSymbols = 4096;
  std::string tables(kSymbols, 'a');
  const uint32_t counts[] = {1, kCount};
  std::memcpy(tables.data(), counts, sizeof counts);
  tables.back() = '\0';
  Elf64_Sym symbol{};
  symbol.st_name = kTexts;
  symbol.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
  symbol.st_shndx = 1;
  for (size_t i = 0; i < kCount; ++i)
    tables.append(reinterpret_cast<const char*>(&symbol), sizeof symbol);
  names.add_segment(tables, kFar);
  *names.entry(DT_GNU_HASH) = {DT_HASH, {kFar}};
  names.entry(DT_STRTAB)->d_un.d_ptr = kFar;
  names.entry(DT_SYMTAB)->d_un.d_ptr = kFar + kSymbols;
  CHECK_THAT(names.findings(folder), ContainsSubstring("names of symbols"));
}

// All files of some folders are read before anything is asked, in the host itself.
TEST_CASE("notes_of_a_file_that_claims_much_are_not_read") {
  const Folder folder;
  const auto refused = [&](const std::string& image) { return why(folder.write("x.so", image)); };
  // Headers of the same notes again and again.
  Patched many;
  auto* const head = reinterpret_cast<Elf64_Ehdr*>(many.image.data());
  const std::string note(reinterpret_cast<char*>(many.segment(PT_NOTE)), sizeof(Elf64_Phdr));
  const std::string all = many.image.substr(head->e_phoff, head->e_phnum * note.size());
  head->e_phoff = many.image.size();
  head->e_phnum = 300;
  many.image += all;
  for (int i = 0; i < 300; ++i) many.image += note;
  CHECK_THAT(refused(many.image), ContainsSubstring("300 program headers"));

  Patched large;
  large.segment(PT_NOTE)->p_filesz = 2 << 20;
  large.image.resize(4 << 20);
  CHECK_THAT(refused(large.image), ContainsSubstring("more than 1.0 MiB of them"));

  Patched needs;
  std::string entries;
  const Elf64_Dyn needed{DT_NEEDED, {1}}, end{DT_NULL, {0}};
  for (int i = 0; i < 2000; ++i)
    entries.append(reinterpret_cast<const char*>(&needed), sizeof needed);
  entries.append(reinterpret_cast<const char*>(&end), sizeof end);
  needs.add_segment(entries, kFar);
  needs.segment(PT_DYNAMIC)->p_vaddr = kFar;
  needs.segment(PT_DYNAMIC)->p_filesz = entries.size();
  CHECK_THAT(refused(needs.image), ContainsSubstring("2001 dynamic entries"));

  const auto sparse = folder.write("x.so", Patched().image);
  for (const uint64_t bytes : {(uint64_t{1} << 30) + 1, (uint64_t{1} << 32) - 1}) {
    std::filesystem::resize_file(sparse, bytes);
    CHECK_THAT(why(sparse), ContainsSubstring("larger than 1.0 GiB"));
    CHECK_THAT(fk::broken_rule(sparse, fk::Trust::candidate), ContainsSubstring("larger than"));
  }
}

TEST_CASE("lint_names_the_rules_that_system_libraries_break") {
  const char* libc = "/lib/x86_64-linux-gnu/libc.so.6";
  if (!std::filesystem::exists(libc)) return;
  std::vector<std::string> rules;
  for (const auto& f : fk::lint(libc, fk::Trust::candidate))
    if (f.fatal) rules.push_back(f.rule);
  for (const char* rule : {"entry_symbol", "one_symbol", "weak_export", "static_tls"}) {
    INFO(rule);
    CHECK(std::find(rules.begin(), rules.end(), rule) != rules.end());
  }
}

// Each as it would be within a plugin that links it statically.
TEST_CASE("lint_knows_libraries_of_ready_kernels_from_within") {
  for (const char* name : {"lib64/libcublas.so", "lib64/libcublasLt.so", "lib/libcudnn_ops.so.9",
                           "lib/libnccl.so.2"}) {
    const auto file = std::filesystem::path("/usr/local/cuda") / name;
    if (!std::filesystem::exists(file)) continue;
    const auto found = fk::lint(file, fk::Trust::candidate);
    CAPTURE(name);
    CHECK(std::any_of(found.begin(), found.end(),
                      [](const auto& f) { return f.fatal && f.rule == "embedded"; }));
    for (const auto& f : fk::lint(file, fk::Trust::baseline)) CHECK(f.rule != "embedded");
  }
  for (const auto& f : fk::lint(kFrozenFile, fk::Trust::candidate)) CHECK(f.rule != "embedded");
  // Where none of them is installed: a plugin with a word of theirs in it, or with a kernel that
  // was cut out of one.
  const Folder folder;
  for (const char* word :
       {"CUBLAS_LOGINFO_DBG", "sm80_xmma_gemm_f32f32_tf32f32", "_ZN8cublasLt19splitKreduce_kernel",
        "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coop", "ncclDevKernel_AllReduce_Sum_f32_RING_LL"}) {
    CAPTURE(word);
    folder.write("with.so", fk::read_file(kFrozenFile) + word);
    const auto found = fk::lint(folder.path() / "with.so", fk::Trust::candidate);
    CHECK(std::any_of(found.begin(), found.end(),
                      [](const auto& f) { return f.fatal && f.rule == "embedded"; }));
  }
  // Names of the author's own functions.
  for (const char* name : {"_ZN7cutlass7Kernel2I70cutlass_80_tensorop_bf16_s16816gemm_bf16",
                           "_Z18splitKreduce_kernelPf", "_ZN14cudnn_frontend5graphE"})
    CHECK(fk::kernel_of_library(name).empty());
}

// The frozen plugin with a fat binary of these parts: kind (1: PTX, 2: a cubin), and for which
// GPUs.
TEST_CASE("fat_binaries_say_which_GPUs_there_is_code_for") {
  const auto with = [](const std::vector<std::pair<uint16_t, uint32_t>>& parts, size_t cut = 0) {
    std::string image = fk::read_file(kFrozenFile), fat;
    image.resize((image.size() + 63) / 64 * 64);
    const auto put = [&](auto value) { fat.append(reinterpret_cast<char*>(&value), sizeof value); };
    for (size_t i = 0; i < 2; ++i) {  // one for each source file; the first has nothing in it
      put(uint32_t{0xba55ed50}), put(uint16_t{1}), put(uint16_t{16});
      put(uint64_t{i ? 80 * parts.size() : 0});
      for (const auto& [kind, sm] : i ? parts : decltype(parts){}) {
        put(kind), put(uint16_t{0x101}), put(uint32_t{64}), put(uint64_t{16});
        put(uint64_t{0}), put(uint32_t{1}), put(sm), fat.append(32 + 16, '\0');
      }
    }
    const uint64_t begin = image.size();
    image += fat;
    const uint64_t names = image.size();
    image += std::string(".nv_fatbin\0\0\0\0\0\0", 16);
    Elf64_Ehdr header{};
    std::memcpy(&header, image.data(), sizeof header);
    header.e_shoff = image.size();
    header.e_shnum = 2;
    header.e_shstrndx = 0;
    std::memcpy(image.data(), &header, sizeof header);
    Elf64_Shdr tables[2] = {};
    tables[0] = {10, SHT_STRTAB, 0, 0, names, 16, 0, 0, 1, 0};
    tables[1] = {0, SHT_PROGBITS, 0, 0, begin, fat.size(), 0, 0, 8, 0};
    image.append(reinterpret_cast<char*>(tables), sizeof tables);
    return image.substr(0, image.size() - cut);
  };
  const Folder folder;
  const auto said = [&](const std::string& image, std::vector<int32_t> sm) {
    return fk::missing_device_code(folder.write("fat.so", image), sm);
  };
  CHECK(said(fk::read_file(kFrozenFile), {90}).empty());  // nothing is known of it
  CHECK(said(with({}), {90}).empty());
  CHECK(said(with({{2, 90}}), {90}).empty());
  CHECK(said(with({{2, 80}}), {80, 86}).empty());  // of one major number
  CHECK(said(with({{1, 80}}), {90, 100}).empty());
  CHECK(said(with({{2, 80}, {2, 90}}), {90}).empty());
  CHECK(said(with({{2, 80}, {1, 100}}), {90}) ==
        "claims compute capability 90 and has code for 80, PTX for 100 alone");
  CHECK(said(with({{2, 86}}), {80}) == "claims compute capability 80 and has code for 86 alone");
  CHECK(said(with({{2, 90}}), {90, 100}).find("capability 100") != std::string::npos);
  // Damaged ones are refused or read, and never more.
  CHECK_THROWS_AS(said(with({{2, 80}}, 1), {90}), fk::Error);
  for (size_t at = 0; at < 300; ++at) {
    std::string image = with({{2, 80}, {2, 90}});
    image[image.size() - 1 - at] = static_cast<char>(0xff);
    try {
      (void)said(image, {90});
    } catch (const fk::Error&) {
    }
  }
}

TEST_CASE("discover_reports_what_is_broken_and_judges_twice_found_files_as_candidates") {
  const Folder plugins, candidates;
  const std::string image = fk::read_file(kFrozenFile);
  plugins.write("good.so", image);
  plugins.write("broken.so", "nothing");
  plugins.write(".hidden.so", "nothing");
  plugins.write("notes.txt", "nothing");
  std::filesystem::create_directories(candidates.path() / "mine/build/deep");
  candidates.write("mine/build/mine.so", image);
  candidates.write("mine/build/deep/too_deep.so", image);
  std::filesystem::create_symlink(plugins.path() / "gone.so", plugins.path() / "dangling.so");
  std::filesystem::create_symlink(plugins.path() / "good.so", candidates.path() / "also.so");
  const Environment a("FK_PLUGIN_PATH", plugins.path()), b("FK_CANDIDATES", candidates.path());
  std::map<std::string, fk::FoundPlugin> found;
  for (const auto& f : fk::discover())
    if (f.path.string().starts_with("/tmp/fk_notes_")) found[f.path.filename()] = f;
  CHECK(found.size() == 3);
  REQUIRE(found.count("also.so"));
  CHECK(found["also.so"].trust == fk::Trust::candidate);
  CHECK(found["also.so"].error.empty());
  REQUIRE(found.count("mine.so"));
  CHECK(found["mine.so"].trust == fk::Trust::candidate);
  REQUIRE(found.count("broken.so"));
  CHECK_THAT(found["broken.so"].error, ContainsSubstring("not an ELF file"));
}
