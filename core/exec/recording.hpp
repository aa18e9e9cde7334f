// SPDX-License-Identifier: Apache-2.0
// Recorded calls as data: what the recorder of a rank answers, and the index of a folder of
// recorded cases. docs/record.md explains the keys.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/base/field_list.hpp"
#include "core/tensor/tensor.hpp"

namespace fk {

// A call as a case of its contract.
struct RecordedCall {
  std::string op;
  int64_t revision = 0;                                // of the contract
  std::map<std::string, std::string> init;             // all slots
  std::map<std::string, int64_t> scalars;              // bounds of forward
  std::map<std::string, int64_t> axes;                 // those of absent fields only are 0
  std::map<std::string, std::vector<int64_t>> listed;  // axes with a size for each entry of a list
  std::vector<std::string> with;                       // present optional fields
  std::map<std::string, std::string> dtypes;
  std::vector<std::string> strided;  // fields with gaps
};
template <class Visitor>
void fields(Visitor& v, RecordedCall& c) {
  v("op", c.op, "the op");
  v("revision", c.revision, "revision of its contract");
  v("init", c.init, "constructor values");
  v("scalars", c.scalars, "upper bounds of scalars");
  v("axes", c.axes, "sizes of axes");
  v.optional("listed", c.listed, !c.listed.empty(), "sizes of axes of lists");
  v("with", c.with, "present optional fields");
  v("dtypes", c.dtypes, "dtypes of fields");
  v("strided", c.strided, "fields with gaps between rows");
}

// The first of equal calls, with its place and the names of its contents.
struct RecordedCase : RecordedCall {
  std::string name, phase, path, provider, workload;
  int64_t step = 0;   // of the phase
  int64_t count = 1;  // equal calls
  int64_t rank = 0;
  std::map<std::string, std::vector<Shape>> shapes;  // by field; several for a list
  // Names of stored tensors by field, as in `shapes`: inputs, and integers which the call wrote.
  std::map<std::string, std::vector<std::string>> tensors, outputs;
  std::vector<std::string> generated;  // fields without room
};
template <class Visitor>
void fields(Visitor& v, RecordedCase& c) {
  v("name", c.name, "name of the case, unique for its op");
  fields(v, static_cast<RecordedCall&>(c));
  v("phase", c.phase, "phase of the model");
  v("path", c.path, "the first node with this call");
  v("provider", c.provider, "provider that ran it");
  v("workload", c.workload, "workload that was running");
  v("step", c.step, "step of the phase");
  v("count", c.count, "equal calls");
  v.optional("rank", c.rank, c.rank != 0, "rank with this case; missing: the first one");
  v("shapes", c.shapes, "shapes of each field, several for a list");
  v("tensors", c.tensors, "names of each field's tensors in the files");
  v.optional("outputs", c.outputs, !c.outputs.empty(), "names of tensors that the call wrote");
  v.optional("generated", c.generated, !c.generated.empty(), "fields whose contents are generated");
}

// A stored tensor, before it has its place in the files of the folder.
struct RecordedTensor {
  std::string dtype;
  Shape shape;
  int64_t begin = 0;  // bytes, in the file of its rank
  int64_t rank = 0;
  FK_FIELDS(dtype, shape, begin, rank)
};

// The calls of one op in one phase.
struct RecordedOp {
  std::string op, phase;
  int64_t calls = 0, shapes = 0, cases = 0;
};
template <class Visitor>
void fields(Visitor& v, RecordedOp& o) {
  v("op", o.op, "the op");
  v("phase", o.phase, "phase of the model");
  v("calls", o.calls, "calls that were seen");
  v("shapes", o.shapes, "different shapes");
  v("cases", o.cases, "cases that were kept");
}

struct LeftOutCalls {
  std::string op, phase;
  int64_t calls = 0;
  std::string why;
};
template <class Visitor>
void fields(Visitor& v, LeftOutCalls& l) {
  v("op", l.op, "the op");
  v("phase", l.phase, "phase of the model");
  v("calls", l.calls, "calls that are no case");
  v("why", l.why, "the reason");
}

// Times of nodes (node_times.hpp).
struct TimedNode {
  std::string path, op, provider;
  FK_FIELDS(path, op, provider)
};
struct TimedStep {
  std::string phase, workload;
  double begin_s = 0;          // of now_seconds()
  std::vector<int32_t> nodes;  // indices in the phase's nodes, in order of execution
  std::vector<int64_t> ns;     // begin and end of each of them, after begin_s
  FK_FIELDS(phase, workload, begin_s, nodes, ns)
};
struct NodeTimes {
  std::map<std::string, std::vector<TimedNode>> phases;  // nodes by phase
  std::vector<TimedStep> steps;                          // in order
  int64_t left_out = 0;                                  // steps beyond the limit
  FK_FIELDS(phases, steps, left_out)
};

// All that one rank recorded, or several ranks together.
struct Recording {
  std::vector<RecordedOp> ops;
  std::vector<RecordedCase> cases;
  std::vector<LeftOutCalls> left_out;
  std::map<std::string, RecordedTensor> tensors;  // by name
  int64_t bytes = 0;                              // of all tensors
  NodeTimes times;                                // in place of all others, where times were asked
  FK_FIELDS(ops, cases, left_out, tensors, bytes, times)
};

}  // namespace fk
