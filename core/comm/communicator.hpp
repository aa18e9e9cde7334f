// SPDX-License-Identifier: Apache-2.0
// The communicator of a rank as the host holds it: the table that plugins get, and what the host
// itself needs to keep the ranks in step. The CPU's is shared_comm.hpp; what carries tensors on
// another device (device_comm.hpp) has the same meeting place, which is memory of the host.
#pragma once
#include <string>

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
  // Meeting::settle(), after which no symmetric buffer is in use: all of them are given back.
  virtual void settle() = 0;
  // What the device's stream is given from now on begins on all ranks at the same time. All call
  // it; the host does not wait.
  virtual void align() {}
};

}  // namespace fk
