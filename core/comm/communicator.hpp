// SPDX-License-Identifier: Apache-2.0
// The communicator of a rank as the host holds it: the table that plugins get, and what the host
// itself needs to keep the ranks in step. The CPU's is shared_comm.hpp; what carries tensors on
// another device (device_comm.hpp) has the same meeting place, which is memory of the host.
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
  // Whether some ranks are on other machines: then there is no memory that all of them see.
  virtual bool apart() const { return false; }
  // Meeting::settle(), after which no symmetric buffer is in use: all of them are given back.
  virtual void settle() = 0;
  // What the device's stream is given from now on begins on all ranks at the same time. All call
  // it; the host does not wait.
  virtual void align() {}

 protected:
  // Where a constructor ends and knows what the table says. `library`: FK_LIBRARY_..., of the
  // collectives.
  void make_table(int32_t library = 0);
  void forget_symmetric() { symmetric_.clear(); }  // what plugins were given of them is gone

 private:
  // What the calls of the table do, as it says; all ranks call them. Error where one cannot be:
  // the plugin is told, and all ranks are.
  virtual void all_reduce(const fk_in& x, const fk_out& out, int64_t op, void* stream) = 0;
  virtual void all_gather(const fk_in& x, const fk_out& out, void* stream) = 0;
  virtual void reduce_scatter(const fk_in& x, const fk_out& out, int64_t op, void* stream) = 0;
  virtual void all_to_all(const fk_in& x, const fk_out& out, void* stream) = 0;
  virtual void barrier(void* stream) = 0;
  // So many bytes of every rank, by rank, as they are mapped here and all 0; before each of them
  // kPadBytes of signals (views.hpp), where the pointers point. Never called where ranks are apart.
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
