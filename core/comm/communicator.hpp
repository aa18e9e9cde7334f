// SPDX-License-Identifier: Apache-2.0
// The communicator of a rank as the host holds it: the table that plugins get, and what the host
// itself needs to keep the ranks in step. The CPU's is shared_comm.hpp; what carries tensors on
// another device (device_comm.hpp) has the same meeting place, which is memory of the host.
#pragma once
#include <string>

#include "core/base/error.hpp"
#include "core/comm/called_in.hpp"
#include "core/comm/meeting.hpp"
#include "fk/comm.h"

namespace fk {

class Communicator {
 public:
  virtual ~Communicator() = default;
  int rank() const { return meeting().rank(); }
  int size() const { return meeting().size(); }
  // For init slots; lives as long as this object.
  virtual const fk_comm* table() const = 0;
  virtual Meeting& meeting() = 0;
  const Meeting& meeting() const { return const_cast<Communicator*>(this)->meeting(); }
  // Whether some ranks are on other machines: then there is no memory that all of them see.
  virtual bool apart() const { return false; }
  // Meeting::settle(), after which no symmetric buffer is in use: all of them are given back.
  virtual void settle() = 0;
  // What the device's stream is given from now on begins on all ranks at the same time. All call
  // it; the host does not wait.
  virtual void align() {}
};

// Error where ranks ask for symmetric buffers that cannot be.
inline void need_one_machine(const Communicator& comm) {
  if (comm.apart())
    fail("ranks",
         "there are no symmetric buffers between ranks on several machines: only collectives");
}

// A call of a communicator's table, by its name: FK_FAILED with the reason in `error` where it has
// no place or `body` throws. What one rank cannot do, all have to know: they would wait for it.
template <class Body>
int32_t told_to_all(Meeting& meeting, std::string& error, const char* call, const Body& body) {
  try {
    error.clear();
    need_place(call);
    body();
    return FK_OK;
  } catch (const Error& e) {
    error = e.what_text();
  } catch (const std::exception& e) {
    error = e.what();
  }
  if (meeting.failure().empty()) meeting.give_up(error);
  return FK_FAILED;
}

}  // namespace fk
