// SPDX-License-Identifier: Apache-2.0
// Fills the table of C functions by which a plugin uses a communicator (fk/comm.h), and gives out
// symmetric buffers.
#include "core/comm/communicator.hpp"

#include "core/base/error.hpp"
#include "core/comm/called_in.hpp"
#include "core/comm/views.hpp"
#include "fk/comm_library.h"

namespace fk {

// Runs a plugin's call. If the plugin's present function may not make it (need_place()) or `body`
// throws, returns FK_FAILED and keeps the reason in error_. All ranks get the failure, because they
// would wait otherwise.
template <class Body>
int32_t Communicator::guarded(const fk_comm* comm, const char* call, const Body& body) {
  auto& self = *static_cast<Communicator*>(comm->self);
  try {
    self.error_.clear();
    need_place(call);
    body(self);
    return FK_OK;
  } catch (const Error& e) {
    self.error_ = e.what_text();
  } catch (const std::exception& e) {
    self.error_ = e.what();
  }
  if (self.meeting().failure().empty()) self.meeting().give_up(self.error_);
  return FK_FAILED;
}

void Communicator::make_table(int32_t library) {
  table_.struct_size = FK_END(fk_comm, error);
  table_.rank = rank();
  table_.size = size();
  // The library of the collectives, and a bit for ranks on several machines.
  table_.facts = library | (apart() ? FK_COMM_APART : 0);
  table_.self = this;
  using Self = Communicator;
  table_.all_reduce = [](const fk_comm* c, const fk_in* x, const fk_out* out, int64_t op,
                         void* stream) {
    return guarded(c, "all_reduce", [&](Self& s) { s.all_reduce(*x, *out, op, stream); });
  };
  table_.all_gather = [](const fk_comm* c, const fk_in* x, const fk_out* out, void* stream) {
    return guarded(c, "all_gather", [&](Self& s) { s.all_gather(*x, *out, stream); });
  };
  table_.reduce_scatter = [](const fk_comm* c, const fk_in* x, const fk_out* out, int64_t op,
                             void* stream) {
    return guarded(c, "reduce_scatter", [&](Self& s) { s.reduce_scatter(*x, *out, op, stream); });
  };
  table_.all_to_all = [](const fk_comm* c, const fk_in* x, const fk_out* out, void* stream) {
    return guarded(c, "all_to_all", [&](Self& s) { s.all_to_all(*x, *out, stream); });
  };
  table_.barrier = [](const fk_comm* c, void* stream) {
    return guarded(c, "barrier", [&](Self& s) { s.barrier(stream); });
  };
  table_.symmetric = [](const fk_comm* c, int64_t bytes, const fk_symmetric** out) {
    return guarded(c, "symmetric", [&](Self& s) { *out = s.symmetric(bytes); });
  };
  table_.error = [](const fk_comm* c) { return static_cast<Self*>(c->self)->error_.c_str(); };
}

const fk_symmetric* Communicator::symmetric(int64_t bytes) {
  if (bytes < 0) fail("ranks", "a symmetric buffer of " + std::to_string(bytes) + " bytes");
  if (apart())
    fail("ranks",
         "there are no symmetric buffers between ranks on several machines: only collectives");
  Symmetric made;
  // Each rank's memory begins with kPadBytes of signals; the buffer follows.
  for (std::byte* at : take_symmetric(bytes)) {
    made.buffers.push_back(at + kPadBytes);
    made.signals.push_back(reinterpret_cast<uint32_t*>(at));
  }
  Symmetric& kept = symmetric_.emplace_back(std::move(made));
  kept.view = {FK_END(fk_symmetric, signals), size(), bytes, kept.buffers.data(),
               kept.signals.data()};
  return &kept.view;
}

}  // namespace fk
