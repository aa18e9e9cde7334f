// SPDX-License-Identifier: Apache-2.0
// Interface of engines. An engine drives the phases of a model. It says what a request is, which
// requests show errors, and how an answer is audited. The rest of the host asks the engine, and
// knows neither tokens nor images. Each engine is a folder of core/engines.
#pragma once
#include <string>
#include <vector>

#include "core/exec/request.hpp"
#include "core/graph/net.hpp"

namespace fk {

class Session;  // core/exec/session.hpp

// A tensor of each request: the input of its name without the first axis B.
struct RequestTensor {
  std::string name;
  std::vector<int64_t> shape;
  // The first axis is `multiple`, 2 `multiple` and so on, up to shape[0]. The rows of all requests
  // of a step follow each other in the input. All such tensors of a request have as many rows.
  bool ragged = false;
  int64_t multiple = 1;
  // Not 0: a row [frames, rows, columns] of each image. The ragged tensors have a row for each of
  // its patches, in squares of `square` by `square` patches, which divide rows and columns. A
  // request without images has no tensors of their group. The tensor itself is no input of a phase.
  int64_t square = 0;
  // Not 0: a row [frames] of each sound, which is encoded in chunks of so many frames. The ragged
  // tensors have a row for each frame. Four frames become one row, and those which remain behind a
  // sound's last row are left out (rows_of_sound). All else is as with `square`.
  int64_t chunk = 0;
  // Tensors of a group have the same rows, and belong to one encoder. Groups count from 0.
  int64_t group = 0;
  // Whole numbers from 0 up to and without `below`, in an input of this dtype; 0: floats. A request
  // has them in float32, so `below` is 2^24 at most.
  int64_t below = 0;
  DType dtype = DType::f32;
  // Floats of random requests are normal around `mean`, one number for each element, or around 0.
  std::vector<float> mean = {};
  double stddev = 1;

  // True for the shapes of images or sounds: requests may lack them, and all of their group.
  bool shapes() const { return square > 0 || chunk > 0; }
};
// Rows which an encoder leaves of a sound: one of two frames is kept twice.
int64_t rows_of_sound(int64_t frames);
inline constexpr int64_t kBelowMax = int64_t{1} << 24;

// The parts of a request to a model.
struct RequestForm {
  int64_t vocabulary = 0;                   // its tokens are below this number; 0: it has no tokens
  int64_t positions = 0;                    // most tokens with the answer; 0: no limit of the model
  std::vector<RequestTensor> tensors = {};  // its other inputs
  bool continues = false;                   // it ends with tokens that the model chooses
  // By group: the token in the prompt that stands for a row which the encoder leaves; -1: none. The
  // first ones of a prompt are as many as its rows need.
  std::vector<int64_t> placeholders = {};

  int64_t context(const Limits& limits) const;  // tokens of one request in a session
  // A request of `length` random tokens and random tensors. All depend on the seed alone.
  Request random(int64_t length, uint64_t seed) const;
  // Adds tensors to a request with tokens, and puts placeholders among the tokens. Some requests
  // get no images, where a model takes them.
  void add_tensors(Request& request, uint64_t seed) const;
  // -1: the group has none.
  int64_t placeholder(int64_t group) const;
  int64_t groups() const;
  // The tensor with the shapes of images or of sounds; null: there is none.
  const RequestTensor* images() const;
  const RequestTensor* sounds() const;
};

// Tokens of an answer that an oracle has looked at.
struct AuditedTokens {
  int64_t checked = 0, strange = 0;  // strange: it does not follow from the model
  std::string first;                 // the first strange one, as "token 3 of request 1 is 17"
  bool unknown = false;              // the oracle has no logits for a token
};

class Engine {
 public:
  explicit Engine(RequestForm form) : form_(std::move(form)) {}
  virtual ~Engine() = default;
  // The name of its folder, as FK_ENGINE registers it.
  virtual std::string name() const = 0;
  // The phases that drive() runs, for example {"prefill", "decode"}.
  virtual std::vector<std::string> phases() const = 0;
  // The largest value of a phase's axis (T, B, P, W ...) under these limits. Error for an unknown
  // axis.
  virtual int64_t axis_limit(const std::string& phase, const std::string& axis,
                             const Limits& limits) const = 0;
  // Serves the session's exchange until no request is left.
  virtual void drive(Session& session) const = 0;

  const RequestForm& form() const { return form_; }
  // A few requests of different sizes, with all results that a comparison needs.
  virtual std::vector<Request> correctness_requests(const Limits& limits, uint64_t seed) const;
  // The request that also asks for all results of its inputs.
  virtual Request scored(Request request) const { return request; }
  // The results of a request by name, in the order of rows.
  virtual std::vector<NamedTensor> results(const RequestResult& result) const {
    return result.tensors;
  }
  // True when inputs may be computed several times for one scored request. The first time counts.
  virtual bool repeats_inputs() const { return false; }
  // Limits with which requests of `longest` inputs meet in small steps and wait for memory.
  virtual Limits stressed(const Limits& limits, int64_t longest) const;
  // The request by which an oracle scores a timed answer, and the result of scoring. A greedy
  // token's logit must be within `tolerance` (absolute) of the largest one. A sampled token must be
  // among the top_k with that tolerance.
  virtual Request audit_request(const RequestResult& timed) const { return timed.request; }
  virtual AuditedTokens audit(const RequestResult& timed, const RequestResult& oracle,
                              double tolerance) const;

 private:
  RequestForm form_;
};

// Error: the phase has no such axis.
[[noreturn]] void fail_axis(const std::string& phase, const std::string& axis,
                            const std::vector<std::string>& known);

}  // namespace fk
