// SPDX-License-Identifier: Apache-2.0
// The communicator of a rank, as the host sees it: the table for plugins, and functions that keep
// the ranks in step. SharedCommunicator (shared_comm.hpp) is the CPU's. Communicators of other
// devices (device_comm.hpp) use its meeting, which is in host memory.
#pragma once
#include <cstddef>
#include <deque>
#include <string>
#include <vector>

#include "core/comm/meeting.hpp"
#include "fk/comm.h"

namespace fk {

class Communicator {
 public:
  Communicator() = default;
  Communicator(const Communicator&) = delete;
  virtual ~Communicator() = default;
  int rank() const { return meeting().rank(); }
  int size() const { return meeting().size(); }
  // For init slots; lives as long as this object.
  const fk_comm* table() const { return &table_; }
  virtual Meeting& meeting() = 0;
  const Meeting& meeting() const { return const_cast<Communicator*>(this)->meeting(); }
  // True if some ranks are on other machines: then the ranks share no memory.
  virtual bool apart() const { return false; }
  // Calls Meeting::settle(), and releases all symmetric buffers: no rank uses one then.
  virtual void settle() = 0;
  // Work enqueued on the device's stream after this call begins on all ranks at the same time. All
  // ranks call it; the host does not wait.
  virtual void align() {}

 protected:
  // Call it at the end of a constructor, when the properties for the table are known. `library`:
  // FK_LIBRARY_..., the library of the collectives.
  void make_table(int32_t library = 0);
  void forget_symmetric() { symmetric_.clear(); }  // pointers given to plugins become invalid

 private:
  // The calls of the table; all ranks call them. Error where a call is impossible: it is reported
  // to the plugin and to all ranks.
  virtual void all_reduce(const fk_in& x, const fk_out& out, int64_t op, void* stream) = 0;
  virtual void all_gather(const fk_in& x, const fk_out& out, void* stream) = 0;
  virtual void reduce_scatter(const fk_in& x, const fk_out& out, int64_t op, void* stream) = 0;
  virtual void all_to_all(const fk_in& x, const fk_out& out, void* stream) = 0;
  virtual void barrier(void* stream) = 0;
  // Returns zeroed memory of every rank, by rank, as mapped here: kPadBytes of signals (views.hpp),
  // then `bytes` bytes. Never called where ranks are on several machines.
  virtual std::vector<std::byte*> take_symmetric(int64_t bytes) = 0;

  struct Symmetric {
    std::vector<void*> buffers;
    std::vector<uint32_t*> signals;
    fk_symmetric view{};
  };
  template <class Body>
  static int32_t guarded(const fk_comm* comm, const char* call, const Body& body);
  const fk_symmetric* symmetric(int64_t bytes);

  fk_comm table_{};
  std::string error_;
  std::deque<Symmetric> symmetric_;
};

}  // namespace fk
