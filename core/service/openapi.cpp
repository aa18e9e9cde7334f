// SPDX-License-Identifier: Apache-2.0
#include <initializer_list>
#include <nlohmann/json.hpp>

#include "core/base/schema.hpp"
#include "core/service/job_document.hpp"
#include "core/service/service.hpp"
#include "core/service/state_document.hpp"

namespace fk {

namespace {

Json content(const char* type, Json schema) {
  return {{"content", {{type, {{"schema", std::move(schema)}}}}}};
}

Json answer_of(const char* meaning, Json body = Json::object()) {
  Json out = {{"description", meaning}};
  out.update(body);
  return out;
}

Json json_of(const char* component) {
  return content("application/json", {{"$ref", std::string("#/components/schemas/") + component}});
}

Json fault(const char* meaning) { return answer_of(meaning, json_of("Error")); }

Json with_faults(Json answers) {
  answers["400"] = fault("the request is wrong");
  answers["401"] = fault("the token is missing or wrong");
  answers["429"] = fault("the client has too many jobs");
  answers["503"] = fault("the queue cannot be used");
  return answers;
}

Json operation(const char* summary, Json answers) {
  return {{"summary", summary}, {"responses", with_faults(std::move(answers))}};
}

Json job_schema() {
  JobRequest request;
  visitors::Describer keys;
  fields(keys, request);
  Json properties = keys.properties;
  properties["name"].update({{"pattern", "^[A-Za-z0-9_][A-Za-z0-9_-]{0,63}$"}});
  for (const char* key : {"ops", "cases", "families", "variants", "dtypes"}) {
    properties[key]["maxItems"] = 64;
    properties[key]["items"].update({{"pattern", "^[A-Za-z0-9_.:+=*-]{1,128}$"}});
  }
  properties["source"]["minLength"] = 1;
  properties["plugin"]["contentEncoding"] = "base64";
  properties["plugin"]["pattern"] =
      "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{4}|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==)$";
  properties["size"]["enum"] = kRequestSizes;
  properties["notes"]["type"] = "object";
  properties["notes"]["properties"]["stage"]["enum"] = kStages;
  properties["notes"]["properties"]["predicted_gain"]["exclusiveMinimum"] = 0;
  for (const auto& limit : kRequestLimits)
    properties[limit.key].update(
        {{"type", "number"}, {"minimum", limit.least}, {"maximum", limit.most}});
  const auto none_of = [](std::initializer_list<const char*> names) {
    Json out = Json::object();
    for (const char* key : names) out[key] = false;
    return out;
  };
  const Json of_source = {{"required", {"source", "language"}},
                          {"properties", none_of({"plugin"})}};
  const Json of_plugin = {{"required", Json::array({"plugin"})},
                          {"properties", none_of({"source", "language", "recipe", "notes"})}};
  return {{"type", "object"},
          {"properties", properties},
          {"additionalProperties", false},
          {"oneOf", {of_source, of_plugin}}};
}

Json number_in_query(const char* name, int64_t most, const char* meaning) {
  return {{"name", name},
          {"in", "query"},
          {"description", meaning},
          {"schema", {{"type", "integer"}, {"minimum", 0}, {"maximum", most}}}};
}

Json error_schema() {
  const Json text = {{"type", "string"}};
  return {{"type", "object"},
          {"properties",
           {{"error",
             {{"type", "object"},
              {"properties", {{"where", text}, {"what", text}, {"hint", text}}},
              {"required", {"where", "what", "hint"}}}}}},
          {"required", Json::array({"error"})}};
}

Json plain(Json schema) {
  schema.erase("$schema");
  return schema;
}

}  // namespace

Json openapi(const Service::Options& options) {
  const Json id = {
      {"name", "id"}, {"in", "path"}, {"required", true}, {"schema", {{"type", "string"}}}};
  Json schemas = {{"Error", error_schema()}, {"JobRequest", job_schema()}};
  schemas["Job"] = plain(schema_of_document<JobDocument>());
  schemas["Jobs"] = plain(schema_of_document<JobListDocument>());
  schemas["State"] = plain(schema_of_document<ServiceState>());
  Json languages = Json::array();
  for (const auto& [name, extension] : options.languages) languages.push_back(name);
  schemas["JobRequest"]["properties"]["language"]["enum"] = languages;
  Json post = operation("Submit a job. The same request of one client is the same job.",
                        {{"200", answer_of("the client has this job already", json_of("Job"))},
                         {"202", answer_of("the job waits", json_of("Job"))},
                         {"413", fault("the body is too large")},
                         {"415", fault("the body is no JSON")}});
  post["requestBody"] = json_of("JobRequest");
  post["requestBody"]["required"] = true;
  Json list = operation("The client's jobs, the newest first",
                        {{"200", answer_of("the jobs", json_of("Jobs"))}});
  list["parameters"] = {number_in_query("limit", kListedMost, "so many, 100 if not given"),
                        number_in_query("skip", kSkippedMost, "without the first of them")};
  const auto part = [&](const char* summary, Json body, const char* meaning, bool may_wait) {
    Json answers = {{"200", answer_of(meaning, std::move(body))}, {"404", fault("no such job")}};
    if (may_wait) answers["409"] = fault("the job's state does not allow it");
    return operation(summary, std::move(answers));
  };
  const Json text = {{"type", "string"}};
  const auto path = [&](Json operations) {
    operations["parameters"] = Json::array({id});
    return operations;
  };
  Json out = {
      {"openapi", "3.1.0"},
      {"info",
       {{"title", "fk-host serve --http"},
        {"version", "1"},
        {"description", "Jobs are candidates to be judged. docs/service.md explains them."}}}};
  out["security"] = Json::array({Json::object(), {{"token", Json::array()}}});
  out["paths"] = {
      {"/v1/jobs", {{"get", list}, {"post", post}}},
      {"/v1/jobs/{id}",
       path({{"get", part("The state of a job", json_of("Job"), "the job", false)},
             {"delete", part("Cancel a job", json_of("Job"), "it is cancelled", true)}})},
      {"/v1/jobs/{id}/result",
       path({{"get", part("The verdict", content("application/json", {{"type", "object"}}),
                          "the document of `bench --json`", true)}})},
      {"/v1/jobs/{id}/log",
       path({{"get", part("The job's output", content("text/plain", text), "its end", false)}})},
      {"/v1/jobs/{id}/events",
       path({{"get", part("The job's states as server-sent events",
                          content("text/event-stream", text), "until the job ends", false)}})},
      {"/v1/state",
       {{"get", operation("Queue, lanes, clients and rates",
                          {{"200", answer_of("the state", json_of("State"))}})}}},
      {"/metrics",
       {{"get", operation("Counts for Prometheus",
                          {{"200", answer_of("text", content("text/plain", text))}})}}},
      {"/health",
       {{"get", operation("Tells that the server lives",
                          {{"200", answer_of("it does", content("application/json",
                                                                {{"type", "object"}}))}})}}}};
  out["components"] = {{"schemas", schemas},
                       {"securitySchemes", {{"token", {{"type", "http"}, {"scheme", "bearer"}}}}}};
  return out;
}

}  // namespace fk
