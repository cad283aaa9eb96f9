// The four places where devices and schedulers are named, compared.
#include "config/device_lists.h"

#include "tests/support/catch.h"

namespace berth::config {
namespace {

/// The lists as manifests/base writes them, the rest left out.
std::string Gate(const std::string& devices, const std::string& schedulers) {
  return R"(
kind: MutatingAdmissionPolicy
metadata: {name: any-name}
spec:
  matchConditions:
  - name: scheduler
    expression: object.spec.schedulerName in )" +
         schedulers + R"(
  - name: berth-releases-it
    expression: >-
      ['berth.dev/gang'].exists(label, label in object.metadata.labels)
      || object.spec.containers.exists(c, )" +
         devices + R"(
      .exists(device, device in c.resources.limits))
)";
}

std::string Tenants(const std::string& devices, const std::string& schedulers) {
  return R"y(
kind: ValidatingAdmissionPolicy
metadata: {name: other-name}
spec:
  variables:
  - {name: schedulerNames, expression: ")y" +
         schedulers + R"y("}
  - {name: devices, expression: ")y" +
         devices + R"y("}
  - {name: asksForDevices, expression: "variables.devices.exists(d, true)"}
)y";
}

constexpr const char* kShipped = "['nvidia.com/gpu']";
constexpr const char* kSchedulers = "['default-scheduler', 'berth']";

std::vector<std::string> Compare(const std::string& yaml, const PolicyConfiguration& policy = {}) {
  const auto objects = ReadManifests(yaml);
  REQUIRE(objects.has_value());
  std::vector<std::string> said;
  for (const ListFinding& finding : CompareLists(*objects, policy)) {
    said.push_back(finding.ToString());
  }
  return said;
}

TEST_CASE("what is shipped fits the default policy", "[unit][config]") {
  CHECK(Compare(Gate(kShipped, kSchedulers) + "---" + Tenants(kShipped, kSchedulers)).empty());
  CHECK(Compare(Gate("[ \"nvidia.com/gpu\"]", kSchedulers) + "---" +
                Tenants("[  'nvidia.com/gpu' ]", kSchedulers))
            .empty());
}

TEST_CASE("a device that a list lacks is an error, one that it has beyond a warning",
          "[unit][config]") {
  PolicyConfiguration policy;
  policy.devices = {{.name = "nvidia.com/gpu"}, {.name = "amd.com/gpu"}};
  const auto said =
      Compare(Gate(kShipped, kSchedulers) + "---" +
                  Tenants("['amd.com/gpu', 'nvidia.com/gpu', 'habana.ai/gaudi']", kSchedulers),
              policy);
  REQUIRE(said.size() == 2);
  CHECK_THAT(said[0], Catch::StartsWith("MutatingAdmissionPolicy any-name: error: "
                                        "matchConditions[berth-releases-it] lacks amd.com/gpu"));
  CHECK_THAT(said[1], Catch::StartsWith("ValidatingAdmissionPolicy other-name: warning: "
                                        "variables[devices] has habana.ai/gaudi"));
}

TEST_CASE("so are schedulers' names", "[unit][config]") {
  PolicyConfiguration policy;
  policy.scheduler_names = {"berth"};
  const auto said =
      Compare(Gate(kShipped, kSchedulers) + "---" + Tenants(kShipped, "['x']"), policy);
  REQUIRE(said.size() == 3);
  CHECK_THAT(said[0], Catch::Contains("warning") && Catch::Contains("has default-scheduler"));
  CHECK_THAT(said[1], Catch::Contains("error") && Catch::Contains("lacks berth"));
  CHECK_THAT(said[2], Catch::Contains("warning") && Catch::Contains("has x"));
}

TEST_CASE("what is not there, or cannot be read, is said", "[unit][config]") {
  CHECK(Compare("kind: Service\nmetadata: {name: x}\n").size() == 2);
  const auto said = Compare(Gate("params.devices", kSchedulers) + "---" +
                            Tenants("params.spec.devices", kSchedulers));
  REQUIRE(said.size() == 2);
  for (const std::string& one : said) CHECK_THAT(one, Catch::Contains("cannot be read"));
}

TEST_CASE("objects of any form are survived", "[unit][config]") {
  for (const char* spec :
       {"3", "{matchConditions: 3}", "{matchConditions: [3, {name: 3}, {name: berth-releases-it}]}",
        "{matchConditions: [{name: berth-releases-it, expression: \"]\"}]}",
        "{matchConditions: [{name: berth-releases-it, expression: \"['].exists(device,\"}]}"}) {
    Compare(std::string("kind: MutatingAdmissionPolicy\nmetadata: {name: x}\nspec: ") + spec);
  }
}

TEST_CASE("texts are taken out of ConfigMaps", "[unit][config]") {
  const auto objects = ReadManifests(R"(
kind: ConfigMap
metadata: {name: berth-policy}
data: {policy.yaml: "a: b", other: "c"}
---
kind: ConfigMap
metadata: {name: other}
data: {policy.yaml: 3}
---
kind: Secret
metadata: {name: berth-policy}
data: {policy.yaml: "x"}
)");
  REQUIRE(objects.has_value());
  const auto texts = TextsOf(*objects, "policy.yaml");
  REQUIRE(texts.size() == 1);
  CHECK(texts[0].object == "ConfigMap berth-policy");
  CHECK(texts[0].text == "a: b");
}

}  // namespace
}  // namespace berth::config
