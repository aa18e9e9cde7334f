// SPDX-License-Identifier: Apache-2.0
// Calls the functions of an op: create, prepare, plan, forward. Instances may have children, which
// are instances of other ops. A child's frames arrive in the layout of its caller's header. They
// are converted to the host's layout and then to the layout of the child's plugin.
#include "core/plugin/instance.hpp"

#include <algorithm>
#include <cstring>
#include <deque>
#include <mutex>

#include "core/base/error.hpp"
#include "core/base/float_modes.hpp"
#include "core/base/io.hpp"

namespace fk {

namespace {

fk_error fresh_error() {
  fk_error error{};
  error.struct_size = FK_END(fk_error, text);
  return error;
}

// A frame always has an address, even without slots.
const void* frame_data(const std::vector<fk_slot>& frame) {
  static const fk_slot empty{};
  return frame.empty() ? static_cast<const void*>(&empty) : frame.data();
}

std::string words(const fk_error& error, int32_t status) {
  return error.text[0] ? std::string(error.text, strnlen(error.text, sizeof error.text))
                       : "status " + std::to_string(status) + " without a reason";
}

// A key of everything that packed weights may depend on.
std::string packed_key(const Provider& p, const std::vector<fk_slot>& init,
                       const std::vector<fk_slot>& weights) {
  std::string key = p.path.string() + "|" + p.contract->op + "|";
  for (const auto& slot : p.contract->section(SectionId::init)) {
    const auto at = static_cast<size_t>(slot.index);
    if (at >= init.size()) break;
    if (slot.kind == SlotKind::ints && init[at].p) {
      const auto* list = static_cast<const fk_ints*>(init[at].p);
      for (int64_t i = 0; i < list->n; ++i) key += std::to_string(list->at[i]) + ",";
    } else {
      key += std::to_string(init[at].i) + ",";
    }
  }
  const auto& slots = p.contract->section(SectionId::weights);
  const auto add = [&](const fk_in* view) {
    key += std::to_string(reinterpret_cast<uintptr_t>(view->data)) + ":" +
           std::to_string(view->nbytes) + ":" + std::to_string(FK_DTYPE(view)) + ";";
  };
  for (size_t i = 0; i < std::min(slots.size(), weights.size()); ++i) {
    if (!weights[i].p) continue;
    if (slots[i].list.empty())
      add(static_cast<const fk_in*>(weights[i].p));
    else {
      const auto* list = static_cast<const fk_in_list*>(weights[i].p);
      for (int64_t k = 0; k < list->n; ++k) add(list->at[k]);
    }
  }
  return key;
}

// A copy of the frames for supports(): weights without data (the caller's `max` has none already).
struct DatalessFrames {
  DatalessFrames(const Contract& contract, const Frames& frames) : meta(frames) {
    const auto& slots = contract.section(SectionId::weights);
    for (size_t i = 0; i < slots.size(); ++i) {
      if (!frames.weights[i].p) continue;
      if (slots[i].list.empty()) {
        meta.weights[i].p = view(*static_cast<const fk_in*>(frames.weights[i].p));
        continue;
      }
      const auto& list = *static_cast<const fk_in_list*>(frames.weights[i].p);
      auto& entries = items.emplace_back();
      for (int64_t k = 0; k < list.n; ++k) entries.push_back(view(*list.at[k]));
      meta.weights[i].p = &lists.emplace_back(fk_in_list{list.n, entries.data()});
    }
  }
  const fk_in* view(const fk_in& with_data) {
    views.push_back(with_data);
    views.back().data = nullptr;
    return &views.back();
  }
  Frames meta;
  std::deque<fk_in> views;
  std::deque<std::vector<const fk_in*>> items;
  std::deque<fk_in_list> lists;
};

}  // namespace

std::shared_ptr<PackedCache::Entry> PackedCache::get(Device& device, const std::string& key,
                                                     int64_t bytes) {
  auto& entry = entries_[key + "#" + std::to_string(bytes)];
  if (!entry) {
    entry = std::make_shared<Entry>();
    entry->memory = DeviceMemory(device, bytes, "packed weights");
  }
  return entry;
}
int64_t PackedCache::bytes() const {
  int64_t total = 0;
  for (const auto& [key, entry] : entries_) total += entry->memory.bytes();
  return total;
}

std::shared_ptr<DeviceMemory> ChildScratch::get(Device& device, const std::string& place,
                                                int64_t bytes) {
  const auto [begin, end] = made_.equal_range(place);
  const auto large =
      std::find_if(begin, end, [&](const auto& made) { return made.second->bytes() >= bytes; });
  if (large != end) return large->second;
  return made_.emplace(place, std::make_shared<DeviceMemory>(device, bytes, "scratch of children"))
      ->second;
}
int64_t ChildScratch::bytes() const {
  int64_t total = 0;
  for (const auto& [place, memory] : made_) total += memory->bytes();
  return total;
}

struct Instance::Child {
  // Converts the caller's frames for the child's plugin.
  struct CallersFrame {
    size_t caller_slots = 0;
    // The plugin's frame, if the plugin knows more slots than the caller. A longer frame of a
    // caller needs no conversion.
    std::vector<fk_slot> own;

    const fk_slot* of(const void* frame) {
      const auto* slots = static_cast<const fk_slot*>(frame);
      if (own.size() <= caller_slots) return slots;
      std::copy_n(slots, caller_slots, own.begin());
      return own.data();
    }
  };
  Frames frames;  // host layout, for the life of the child
  std::unique_ptr<Instance> instance;
  CallersFrame forward_frame, plan_frame;
  std::shared_ptr<DeviceMemory> scratch = std::make_shared<DeviceMemory>();
  DeviceMemory plan_device;
  std::vector<std::byte> plan;
  int64_t plan_bytes = 0;
};

Support Instance::supports(const Provider& p, const Frames& meta) {
  Support s;
  s.need.struct_size = FK_END(fk_need, plan);
  std::vector<fk_slot> init, weights, forward;
  s.why = fit(*p.contract, p.match, SectionId::init, meta.init, init);
  if (s.why.empty()) s.why = fit(*p.contract, p.match, SectionId::weights, meta.weights, weights);
  if (s.why.empty()) s.why = fit(*p.contract, p.match, SectionId::forward, meta.forward, forward);
  if (!s.why.empty()) return s;
  fk_error error = fresh_error();
  int32_t status = FK_OK;
  {
    const CalledIn in("supports");
    const KeptModes modes;
    status =
        p.op->supports(frame_data(init), frame_data(weights), frame_data(forward), &s.need, &error);
    s.changed = modes.changed();
  }
  s.ok = status == FK_OK;
  if (!s.ok) s.why = words(error, status);
  s.broken = !s.ok && (status != FK_UNSUPPORTED || !error.text[0]);
  if (!s.ok && status != FK_UNSUPPORTED)
    s.why +=
        " (to refuse a call, throw fk::unsupported{\"why\"}; in C: return fk_refuse(error, why))";
  if (!s.changed.empty()) {
    s.ok = false;
    s.broken = true;
    s.why = "in supports(), " + s.changed;
  }
  if (s.need.struct_size != FK_END(fk_need, plan) || s.need.reserved != 0) {
    s.ok = false;
    s.broken = true;
    s.why = "it changed a member of fk_need that is none of its four sizes";
  }
  for (const int64_t bytes : {s.need.scratch, s.need.packed, s.need.persistent, s.need.plan}) {
    if (bytes < 0 || bytes > (int64_t{1} << 46)) {
      s.ok = false;
      s.broken = true;
      s.why = "it asks for an impossible amount of memory: " + std::to_string(bytes) + " bytes";
    }
  }
  return s;
}

// No table is ever freed, because plugins may keep the pointer. A mutex, because the ranks of a
// reference make their instances in threads of their own.
static fk_host& new_table() {
  static std::mutex mutex;
  static auto* tables = new std::deque<fk_host>;
  const std::lock_guard lock(mutex);
  return tables->emplace_back();
}

Instance::Instance(const Provider& provider, const Frames& frames, const fk_need& need,
                   InstanceServices services)
    : provider_(provider), need_(need), services_(std::move(services)), error_(fresh_error()) {
  const std::string where = provider.contract->op + "@" + provider.plugin;
  kept_[0] = fitted(SectionId::init, frames.init);
  kept_[1] = fitted(SectionId::weights, frames.weights);
  const std::vector<fk_slot> max = fitted(SectionId::forward, frames.forward);
  fill_table();
  create(where);
  prepare(where, frames, max);
  prepared_ = true;
}

// The functions of the host that the plugin may call.
void Instance::fill_table() {
  const Device& device = services_.device;
  host_ = &new_table();
  *host_ = fk_host{FK_END(fk_host, child_forward),
                   FK_ABI_MINOR,
                   this,
                   device.type(),
                   device.id(),
                   device.cpu_threads(),
                   /*reserved=*/0,
                   /*log=*/nullptr,
                   /*child=*/nullptr,
                   /*child_plan=*/nullptr,
                   /*child_forward=*/nullptr};
  host_->log = [](const fk_host* host, int32_t severity, const char* text) {
    static_cast<Instance*>(host->self)->services_.log(severity, text);
  };
  host_->child = &Instance::make_child;
  host_->child_plan = [](fk_child* handle, const void* frame, fk_error* error) -> int32_t {
    auto* child = reinterpret_cast<Child*>(handle);
    if (!child->instance->has_plan()) return FK_OK;
    child->plan_bytes = static_cast<int64_t>(child->plan.size());
    const int32_t status =
        child->instance->plan(child->plan_frame.of(frame), child->plan.data(), &child->plan_bytes);
    if (status != FK_OK) return fk_fail(error, status, child->instance->error().text);
    try {
      child->instance->services_.device.upload(child->plan_device.data(), child->plan.data(),
                                               child->plan_bytes);
    } catch (const std::exception& e) {  // must not unwind through the caller's frames
      return fk_fail(error, FK_FAILED, e.what());
    }
    return FK_OK;
  };
  host_->child_forward = [](fk_child* handle, const void* frame, const fk_ctx* parent) -> int32_t {
    auto* child = reinterpret_cast<Child*>(handle);
    fk_ctx ctx{FK_END(fk_ctx, error),  parent->device_id,       parent->stream,
               child->scratch->data(), child->scratch->bytes(), child->plan_device.data(),
               child->plan_bytes,      /*error=*/nullptr};
    const int32_t status = child->instance->forward(child->forward_frame.of(frame), ctx);
    return status == FK_OK ? status : fk_fail(parent->error, status, child->instance->error().text);
  };
}

// create() has no stream, and prepare() may use streams of its own. So weights and memory are ready
// before the calls, and work that prepare() began on any stream ends before others use the
// instance.
void Instance::create(const std::string& where) {
  services_.device.synchronize();
  int32_t status = FK_OK;
  {
    const CalledIn in("create");
    status =
        provider_.op->create(host_, frame_data(kept_[0]), frame_data(kept_[1]), &self_, &error_);
  }
  if (status != FK_OK) fail(where, "create: " + words(error_, status));
  if (services_.created) services_.created();
}

void Instance::prepare(const std::string& where, const Frames& frames,
                       const std::vector<fk_slot>& max) {
  Device& device = services_.device;
  fk_memory memory{FK_END(fk_memory, stream),
                   /*packed_ready=*/0,
                   /*packed=*/nullptr,        need_.packed,
                   /*persistent=*/nullptr,    need_.persistent, device.stream()};
  if (need_.packed) {
    packed_ = services_.packed.get(device, packed_key(provider_, frames.init, frames.weights),
                                   need_.packed);
    memory.packed = packed_->memory.data();
    memory.packed_ready = packed_->ready ? 1 : 0;
  }
  if (need_.persistent) {
    persistent_ = DeviceMemory(device, need_.persistent, "the persistent memory of " + where);
    device.fill_zero(persistent_.data(), need_.persistent);
    memory.persistent = persistent_.data();
  }
  device.synchronize();
  int32_t status = FK_OK;
  {
    const CalledIn in("prepare");
    status = provider_.op->prepare(self_, frame_data(max), &memory, &error_);
  }
  if (status != FK_OK) {
    destroy();
    fail(where, "prepare: " + words(error_, status));
  }
  device.synchronize_all();
  if (packed_) packed_->ready = true;
}

Instance::~Instance() {
  if (self_) destroy();
  children_.clear();  // they must outlive the instance that uses them
}

void Instance::destroy() {
  const CalledIn in("destroy");
  provider_.op->destroy(self_);
}

std::vector<fk_slot> Instance::fitted(SectionId section, const std::vector<fk_slot>& frame) const {
  std::vector<fk_slot> out;
  const std::string why = fit(*provider_.contract, provider_.match, section, frame, out);
  if (!why.empty()) fail(provider_.plugin, why);
  if (out.empty()) out.push_back({});
  return out;
}

int32_t Instance::plan(const fk_slot* frame, void* blob, int64_t* bytes) {
  error_.text[0] = 0;
  const int64_t room = *bytes;
  const CalledIn in("plan");
  const int32_t status = provider_.op->plan_or_null(self_, frame, blob, bytes, &error_);
  if (status == FK_OK && (*bytes < 0 || *bytes > room)) {
    return fk_fail(&error_, FK_FAILED, "plan() set *bytes above the size of the blob");
  }
  return status;
}

int32_t Instance::reset() {
  if (!FK_HAS(provider_.op, fk_op, reset_or_null) || !provider_.op->reset_or_null) return FK_OK;
  const CalledIn in("reset");
  return provider_.op->reset_or_null(self_, &error_);
}

int64_t Instance::side_streams() const {
  int64_t sum = provider_.op->claims->side_streams;
  for (const auto& child : children_) sum += child->instance->side_streams();
  return sum;
}

int32_t Instance::make_child(const fk_host* host, const fk_contract* theirs, const void* init,
                             const void* weights, const void* max, fk_child** out,
                             fk_error* error) {
  auto& parent = *static_cast<Instance*>(host->self);
  const auto refuse = [&](const std::string& why) {
    return fk_fail(error, FK_UNSUPPORTED, why.c_str());
  };
  try {
    if (!parent.services_.children || !theirs || !theirs->op)
      return refuse("this host lends no children here");
    if (parent.prepared_) return refuse("children are asked for in create() and prepare() only");
    ChildChooser& chooser = *parent.services_.children;
    const Contract* wanted = chooser.contract(theirs->op);
    if (!wanted)
      return refuse("this host has no contract for the child " + std::string(theirs->op));
    if (wanted->level >= parent.provider_.contract->level) {
      return refuse(wanted->op + " is not of a lower level than " + parent.provider_.contract->op);
    }
    const Match caller = match(*wanted, *theirs);
    if (!caller.ok) return refuse(caller.why);
    auto child = std::make_unique<Child>();
    const void* frames[] = {init, weights, max};
    std::vector<fk_slot>* into[] = {&child->frames.init, &child->frames.weights,
                                    &child->frames.forward};
    for (size_t i = 0; i < 3; ++i) {
      const auto& slots = wanted->sections[i];
      const auto* given = static_cast<const fk_slot*>(frames[i]);
      for (size_t j = 0; j < slots.size(); ++j) {
        into[i]->push_back(given && j < caller.slots[i] ? given[j] : slots[j].default_value);
      }
    }
    const DatalessFrames dataless(*wanted, child->frames);
    const Frames& meta = dataless.meta;
    std::string why;
    const Provider* provider = chooser.choose(*wanted, meta, why);
    if (!provider) return refuse("no provider for the child " + wanted->op + ": " + why);
    const Support support = supports(*provider, meta);
    if (!support.ok) return refuse(provider->plugin + ": " + support.why);
    InstanceServices services = parent.services_;
    services.created = nullptr;
    services.place += "/" + std::to_string(parent.children_.size());
    child->instance = std::make_unique<Instance>(*provider, child->frames, support.need, services);
    std::vector<fk_slot> plan;
    for (const auto& slot : wanted->section(SectionId::plan)) plan.push_back(slot.default_value);
    child->forward_frame = {caller.slots[2],
                            child->instance->fitted(SectionId::forward, child->frames.forward)};
    child->plan_frame = {caller.slots[3], child->instance->fitted(SectionId::plan, plan)};
    if (support.need.scratch) {
      ChildScratch own;
      ChildScratch& from = services.scratch ? *services.scratch : own;
      child->scratch = from.get(services.device, services.place, support.need.scratch);
    }
    if (support.need.plan) {
      child->plan.resize(static_cast<size_t>(support.need.plan));
      child->plan_device =
          DeviceMemory(parent.services_.device, support.need.plan, "a child's plan");
    }
    *out = reinterpret_cast<fk_child*>(child.get());
    parent.children_.push_back(std::move(child));
    return FK_OK;
  } catch (const std::exception& e) {
    return fk_fail(error, FK_FAILED, e.what());
  }
}

}  // namespace fk
