// SPDX-License-Identifier: Apache-2.0
// Conformance of a communicator (core/comm/communicator.hpp, plugin_api/fk/comm.h): one program for
// each kind of device, linked with its communicator, run once for each form (comm_ranks.hpp). A
// communicator may differ in the following, and its table says so:
//   symmetric buffers  ranks on several machines share no memory; the suite demands a failure
//   order of a sum     a library chooses its own; sums are then as near, with equal bits on ranks
//   captured calls     a device without capture has none
// The communicator of ranks which share one device (one_device_comm.hpp) has barriers and symmetric
// buffers alone. It serves oracles, and its ranks are threads: it has a test of its own.
#include <cmath>
#include <cstdint>

#include "core/comm/called_in.hpp"
#include "core/comm/views.hpp"
#include "core/tensor/random.hpp"
#include "fk/comm_library.h"
#include "test/backend/comm_ranks.hpp"

namespace {

using namespace fk;
using namespace fk::test;

constexpr DType kReduced[] = {DType::f64, DType::f32, DType::f16, DType::bf16,
                              DType::i64, DType::i32, DType::i8,  DType::u8};

void must(bool good, const std::string& what) {
  if (!good) fail("suite", what);
}

// Element i of a rank. Whole numbers so small that the sum of eight ranks is exact in each dtype,
// without a period that is a power of two.
double element(int rank, int64_t i) {
  return static_cast<double>((i * 7 + i / 977 + rank * 5) % 9);
}

Tensor numbers(DType dtype, int rank, int64_t count) {
  Tensor out(dtype, {count});
  for (int64_t i = 0; i < count; ++i) out.set(i, element(rank, i));
  return out;
}

double reduced(int64_t op, int size, int64_t i) {
  double out = element(0, i);
  for (int r = 1; r < size; ++r) {
    const double next = element(r, i);
    out = op == FK_SUM ? out + next : op == FK_MAX ? std::max(out, next) : std::min(out, next);
  }
  return out;
}

using TableCall = std::function<int32_t(const fk_comm*, const fk_in*, const fk_out*, void* stream)>;

// `out` after the call, which must succeed and leave x as it is.
Tensor result(RankComm& r, const std::string& what, const Tensor& x, int64_t out_count,
              const TableCall& call, bool captured = false) {
  Device& device = r.device();
  GuardedTensor from(device, x), to(device, Tensor(x.dtype, {out_count}));
  const auto make = [&] {
    const int32_t status = call(r.table(), from.in(), &to.out(), r.stream());
    must(status == FK_OK, what + ": " + r.table()->error(r.table()));
  };
  if (captured) {
    device.begin_capture();
    make();
    const auto graph = device.end_capture();
    for (int i = 0; i < 2; ++i) device.launch(graph.get());
    device.synchronize();
  } else {
    make();
  }
  const Tensor kept = from.read();
  must(x.bytes() == 0 || std::memcmp(kept.data(), x.data(), static_cast<size_t>(x.bytes())) == 0,
       what + " changed x");
  return to.read();
}

void must_be(const std::string& what, const Tensor& got,
             const std::function<double(int64_t)>& want) {
  for (int64_t i = 0; i < got.numel(); ++i)
    if (got.at(i) != want(i))
      fail("suite", what + " of " + std::to_string(got.numel()) + " " +
                        std::string(name(got.dtype)) + ": element " + std::to_string(i) + " is " +
                        std::to_string(got.at(i)) + ", not " + std::to_string(want(i)));
}

// Collectives which move elements, with n elements for each rank.
void moves(RankComm& r, DType dtype, int64_t n, bool captured = false) {
  const int size = r.size(), rank = r.rank();
  const auto gather = [](const fk_comm* c, const fk_in* x, const fk_out* out, void* stream) {
    return c->all_gather(c, x, out, stream);
  };
  must_be("all_gather",
          result(r, "all_gather", numbers(dtype, rank, n), size * n, gather, captured),
          [&](int64_t i) { return element(static_cast<int>(i / n), i % n); });
  const auto exchange = [](const fk_comm* c, const fk_in* x, const fk_out* out, void* stream) {
    return c->all_to_all(c, x, out, stream);
  };
  must_be("all_to_all",
          result(r, "all_to_all", numbers(dtype, rank, size * n), size * n, exchange, captured),
          [&](int64_t i) { return element(static_cast<int>(i / n), rank * n + i % n); });
}

// Collectives which reduce them.
void reductions(RankComm& r, DType dtype, int64_t n, bool captured = false) {
  const int size = r.size(), rank = r.rank();
  for (const int64_t op : {FK_SUM, FK_MAX, FK_MIN}) {
    const std::string kind = " (" + std::to_string(op) + ")";
    const auto reduce = [op](const fk_comm* c, const fk_in* x, const fk_out* out, void* stream) {
      return c->all_reduce(c, x, out, op, stream);
    };
    must_be("all_reduce" + kind,
            result(r, "all_reduce", numbers(dtype, rank, n), n, reduce, captured),
            [&](int64_t i) { return reduced(op, size, i); });
    const auto scatter = [op](const fk_comm* c, const fk_in* x, const fk_out* out, void* stream) {
      return c->reduce_scatter(c, x, out, op, stream);
    };
    must_be("reduce_scatter" + kind,
            result(r, "reduce_scatter", numbers(dtype, rank, size * n), n, scatter, captured),
            [&](int64_t i) { return reduced(op, size, rank * n + i); });
  }
}

void all_collectives(RankComm& r, DType dtype, int64_t n) {
  moves(r, dtype, n);
  reductions(r, dtype, n);
}

void barrier(RankComm& r) {
  must(r.table()->barrier(r.table(), r.stream()) == FK_OK,
       std::string("barrier: ") + r.table()->error(r.table()));
}

// The call has failed on this rank, with this reason.
void must_fail(RankComm& r, int32_t status, const std::string& reason) {
  const std::string said = r.table()->error(r.table());
  must(status == FK_FAILED, "no failure where `" + reason + "` was expected");
  must(said.find(reason) != std::string::npos, "`" + said + "` instead of `" + reason + "`");
}

// Every later call fails, until all ranks settle; then all is well.
void fails_until_settled(RankComm& r) {
  must(r.table()->barrier(r.table(), r.stream()) == FK_FAILED, "a failure was forgotten");
  r.comm().settle();
  all_collectives(r, DType::f32, 9);
  must(std::string(r.table()->error(r.table())).empty(), "an error after a success");
}

int32_t sum_of(RankComm& r, DType dtype, int64_t count, int64_t op = FK_SUM) {
  GuardedTensor x(r.device(), numbers(dtype, r.rank(), count));
  return r.table()->all_reduce(r.table(), x.in(), &x.out(), op, r.stream());
}

void on_all_sizes(const std::function<void(RankComm&)>& body) {
  for (const int size : CommBackend::asked().sizes()) on_ranks(size, body);
}

// The tests of failures need enough ranks that one waits for another.
int some_ranks() { return CommBackend::asked().sizes().back() >= 3 ? 3 : 2; }

}  // namespace

TEST_CASE("comm_table_names_the_rank_and_has_every_function") {
  on_all_sizes([](RankComm& r) {
    const fk_comm& c = *r.table();
    const CommBackend backend = CommBackend::asked();
    must(c.struct_size == FK_END(fk_comm, error), "struct_size");
    must(c.rank == r.rank() && c.size == r.size(), "rank or size");
    must(c.all_reduce && c.all_gather && c.reduce_scatter && c.all_to_all && c.barrier &&
             c.symmetric && c.error,
         "a function is missing");
    must(*c.error(&c) == 0, "an error before the first call");
    must((fk_comm_has_symmetric(&c) == 0) == backend.apart(), "symmetric buffers");
    must(r.comm().apart() == backend.apart(), "apart()");
    if (backend.form == "own")
      must(fk_comm_library(&c) == FK_LIBRARY_NONE, "a library which was not allowed");
  });
}

TEST_CASE("comm_collectives_give_every_rank_what_they_mean") {
  on_all_sizes([](RankComm& r) {
    for (const DType dtype : kReduced)
      for (const int64_t n : {int64_t{0}, int64_t{1}, int64_t{17}, int64_t{1024}})
        all_collectives(r, dtype, n);
    // Elements without arithmetic only move.
    for (const DType dtype : {DType::f8e4m3, DType::i16}) moves(r, dtype, 33);
  });
}

TEST_CASE("comm_collectives_of_many_pieces") {
  // Longer than the stages through which communicators send, and odd.
  const int64_t count = kSanitized ? 300'007 : 2'500'007;
  on_ranks(some_ranks(), [count](RankComm& r) {
    all_collectives(r, DType::f32, count / r.size());
    all_collectives(r, DType::u8, 300'007);
  });
}

TEST_CASE("comm_collectives_run_when_they_are_launched") {
  on_ranks(some_ranks(), [](RankComm& r) {
    if (!r.device().can_capture()) return;
    for (const int64_t n : {1, 1000}) {
      moves(r, DType::f32, n, true);
      reductions(r, DType::f32, n, true);
    }
  });
}

TEST_CASE("comm_all_reduce_in_place") {
  on_all_sizes([](RankComm& r) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::i32}) {
      GuardedTensor x(r.device(), numbers(dtype, r.rank(), 4099));
      const fk_comm* c = r.table();
      r.comm().align();  // work begins together, and stays right
      must(c->all_reduce(c, x.in(), &x.out(), FK_SUM, r.stream()) == FK_OK, c->error(c));
      must_be("all_reduce", x.read(), [&](int64_t i) { return reduced(FK_SUM, r.size(), i); });
    }
  });
}

TEST_CASE("comm_sums_are_near_and_have_the_same_bits_on_all_ranks") {
  on_all_sizes([](RankComm& r) {
    constexpr std::pair<DType, int> kDigits[] = {
        {DType::f64, 53}, {DType::f32, 24}, {DType::f16, 11}, {DType::bf16, 8}};
    for (const auto& [dtype, digits] : kDigits) {
      std::vector<Tensor> all;
      for (int rank = 0; rank < r.size(); ++rank) {
        all.emplace_back(dtype, Shape{1000});
        fill_normal(all.back().data(), dtype, 1000, 40 + static_cast<uint64_t>(rank), 0, 0, 3);
        // All digits count, so that another order gives other bits.
        for (int64_t i = 0; i < 1000; ++i) all.back().set(i, all.back().at(i) / 3);
      }
      const Tensor got =
          result(r, "all_reduce", all[static_cast<size_t>(r.rank())], 1000,
                 [](const fk_comm* c, const fk_in* x, const fk_out* out, void* stream) {
                   return c->all_reduce(c, x, out, FK_SUM, stream);
                 });
      for (int64_t i = 0; i < 1000; ++i) {
        double sum = 0, sizes = 0;
        for (const Tensor& one : all) sum += one.at(i), sizes += std::abs(one.at(i));
        must(std::abs(got.at(i) - sum) <= std::ldexp(sizes, -digits) * r.size(),
             "a sum in " + std::string(name(dtype)) + " is " + std::to_string(got.at(i)) +
                 ", not near " + std::to_string(sum));
      }
      const auto parts = gather_bytes(r.host(), got.data(), static_cast<size_t>(got.bytes()));
      for (const std::string& part : parts)
        must(part == parts.front(), "other bits on another rank in " + std::string(name(dtype)));
    }
  });
}

TEST_CASE("comm_symmetric_buffers_are_zero_and_seen_by_all_ranks") {
  on_all_sizes([](RankComm& r) {
    const fk_comm* c = r.table();
    if (!fk_comm_has_symmetric(c)) {
      const fk_symmetric* none = nullptr;
      must_fail(r, c->symmetric(c, 256, &none), "no symmetric buffers");
      return fails_until_settled(r);
    }
    Device& device = r.device();
    const int right = (r.rank() + 1) % r.size(), left = (r.rank() + r.size() - 1) % r.size();
    for (int round = 0; round < 2; ++round) {  // settling gives zeros again
      std::vector<const fk_symmetric*> made;
      for (const int64_t bytes : {int64_t{0}, int64_t{4}, int64_t{1000}, int64_t{1} << 20}) {
        const fk_symmetric* one = nullptr;
        must(c->symmetric(c, bytes, &one) == FK_OK, c->error(c));
        must(one->struct_size == FK_END(fk_symmetric, signals), "struct_size");
        must(one->size == r.size() && one->bytes == bytes, "size or bytes");
        made.push_back(one);
        for (int rank = 0; rank < r.size(); ++rank)
          must(reinterpret_cast<uintptr_t>(one->buffers[rank]) % 256 == 0, "not aligned");
        Tensor bytes_now(DType::u8, {bytes}), pad(DType::i32, {FK_SIGNALS});
        device.download(bytes_now.data(), one->buffers[r.rank()], bytes);
        device.download(pad.data(), one->signals[r.rank()], pad.bytes());
        must_be("a new buffer", bytes_now, [](int64_t) { return 0.0; });
        must_be("a new pad", pad, [](int64_t) { return 0.0; });
      }
      barrier(r);
      // Each rank fills its right neighbour's buffers; every one has another number.
      for (size_t b = 0; b < made.size(); ++b) {
        const std::vector<uint8_t> filled(static_cast<size_t>(made[b]->bytes),
                                          static_cast<uint8_t>(10 * b + 1 + r.rank()));
        device.upload(made[b]->buffers[right], filled.data(), made[b]->bytes);
        const auto word = static_cast<uint32_t>(100 * b + 7 + static_cast<size_t>(r.rank()));
        device.upload(made[b]->signals[right] + FK_SIGNALS - 1, &word, sizeof word);
      }
      barrier(r);
      for (size_t b = 0; b < made.size(); ++b) {
        Tensor now(DType::u8, {made[b]->bytes});
        device.download(now.data(), made[b]->buffers[r.rank()], now.bytes());
        must_be("a buffer", now, [&](int64_t) { return static_cast<double>(10 * b + 1) + left; });
        uint32_t word = 0;
        device.download(&word, made[b]->signals[r.rank()] + FK_SIGNALS - 1, sizeof word);
        must(word == 100 * b + 7 + static_cast<size_t>(left), "a signal is wrong");
      }
      r.comm().settle();
    }
    const fk_symmetric* none = nullptr;
    must_fail(r, c->symmetric(c, -1, &none), "-1 bytes");
    fails_until_settled(r);
  });
}

TEST_CASE("comm_names_the_rank_that_disagrees") {
  on_ranks(some_ranks(), [](RankComm& r) {
    const bool odd = r.rank() == 1;
    must_fail(r, sum_of(r, DType::f32, odd ? 6 : 4),
              "rank 1 called all_reduce of 6 f32 where rank 0 called all_reduce of 4 f32");
    fails_until_settled(r);
    must_fail(r, sum_of(r, odd ? DType::bf16 : DType::f16, 4),
              "rank 1 called all_reduce of 4 bf16 where rank 0 called all_reduce of 4 f16");
    fails_until_settled(r);
    must_fail(r, sum_of(r, DType::f32, 4, odd ? FK_MAX : FK_SUM),
              "rank 1 called all_reduce of 4 f32 (max) where rank 0 called all_reduce of 4 f32");
    fails_until_settled(r);
    must_fail(r, odd ? r.table()->barrier(r.table(), r.stream()) : sum_of(r, DType::f32, 4),
              "rank 1 called barrier where rank 0 called all_reduce of 4 f32");
    fails_until_settled(r);
  });
}

TEST_CASE("comm_fails_on_all_ranks_where_the_views_of_one_do_not_fit") {
  on_ranks(some_ranks(), [](RankComm& r) {
    const fk_comm* c = r.table();
    const bool odd = r.rank() == 0;
    const Tensor four = numbers(DType::f32, r.rank(), 4);
    GuardedTensor x(r.device(), four), all(r.device(), Tensor(DType::f32, {4 * r.size()}));
    GuardedTensor small(r.device(), four), other(r.device(), Tensor(DType::i32, {4}));
    const auto must_be_kept = [&] {
      must_be("out after a failure", all.read(), [](int64_t) { return 0.0; });
    };
    must_fail(r, c->all_gather(c, x.in(), odd ? &small.out() : &all.out(), r.stream()), "bytes");
    must_be_kept();
    fails_until_settled(r);
    must_fail(r, c->all_reduce(c, x.in(), odd ? &other.out() : &small.out(), FK_SUM, r.stream()),
              "different dtypes");
    fails_until_settled(r);
    fk_in gaps = *x.in();
    gaps.nbytes *= 2;
    must_fail(r, c->all_gather(c, odd ? &gaps : x.in(), &all.out(), r.stream()), "not dense");
    must_be_kept();
    fails_until_settled(r);
  });
}

TEST_CASE("comm_refuses_reductions_which_do_not_exist") {
  on_ranks(some_ranks(), [](RankComm& r) {
    must(sum_of(r, DType::f32, 4, 7) == FK_FAILED, "reduction 7 is none");
    must(*r.table()->error(r.table()) != 0, "a failure without a reason");
    fails_until_settled(r);
    must(sum_of(r, DType::boolean, 4) == FK_FAILED, "booleans are not reduced");
    fails_until_settled(r);
  });
}

TEST_CASE("comm_misses_a_rank_within_its_patience") {
  const int size = some_ranks();
  on_ranks(
      size,
      [&](RankComm& r) {
        all_collectives(r, DType::f32, 5);
        if (r.rank() == size - 1)
          while (r.comm().meeting().failure().empty()) ::usleep(1000);
        must_fail(r, sum_of(r, DType::f32, 4),
                  "rank " + std::to_string(size - 1) + " did not come to all_reduce of 4 f32");
        fails_until_settled(r);
      },
      CommBackend::asked().short_patience());
}

TEST_CASE("comm_calls_belong_into_functions_of_a_plugin") {
  on_ranks(some_ranks(), [](RankComm& r) {
    const fk_symmetric* made = nullptr;
    {
      const CalledIn in("prepare");
      must_fail(r, sum_of(r, DType::f32, 4), std::string(kNotThere) + " prepare()");
    }
    fails_until_settled(r);
    {
      const CalledIn in("forward");
      must_fail(r, r.table()->symmetric(r.table(), 64, &made),
                std::string(kNotThere) + " forward()");
    }
    fails_until_settled(r);
    if (fk_comm_has_symmetric(r.table())) {
      const CalledIn in("create");
      must(r.table()->symmetric(r.table(), 64, &made) == FK_OK, r.table()->error(r.table()));
    }
    const CalledIn in("forward");
    all_collectives(r, DType::f32, 5);
  });
}

TEST_CASE("comm_groups_of_a_process_are_apart") {
  // A square of processes: its rows are groups, and so are its columns.
  const CommBackend backend = CommBackend::asked();
  if (backend.apart() && !backend.cpu()) {
    SUCCEED("left out: two ranks of a group may not share a device between machines");
    return;
  }
  on_groups(4, {{0, 1}, {2, 3}, {0, 2}, {1, 3}}, 30, [](auto& places) {
    RankComm &row = *places.at(0), &column = *places.at(1);
    const bool first = column.rank() == 0;  // processes 0 and 1
    for (const int64_t n : {1, 40'000}) {
      all_collectives(row, DType::f32, n);
      all_collectives(column, DType::i32, n);
    }
    // One row fails. The other row and both columns go on.
    if (first) {
      must_fail(row, sum_of(row, DType::f32, row.rank() == 0 ? 4 : 5), "rank 1 called all_reduce");
    } else {
      all_collectives(row, DType::bf16, 17);
    }
    all_collectives(column, DType::f32, 17);
    if (first) fails_until_settled(row);
    all_collectives(row, DType::f32, 9);
  });
}
