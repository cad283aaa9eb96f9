#include "sim/experiments/traces.h"

#include <array>
#include <set>

namespace berth::sim {
namespace {

constexpr std::int64_t kMaxCpuMilli = 100'000'000;
constexpr std::int64_t kMaxMemoryMib = 1'000'000'000;
constexpr std::int64_t kMaxGpus = 64;
constexpr std::int64_t kMaxJobGpus = 100'000;
constexpr std::int64_t kMaxSeconds = 10'000'000'000;  // three centuries
constexpr std::int64_t kMaxCount = 1'000'000'000'000;

template <typename T, std::size_t N, typename Row>
Traced<T> Read(std::string_view text, const std::string& file,
               const std::array<std::string_view, N>& headers, Row row) {
  CsvReader csv(text, file);
  const int header = csv.Header(headers);
  std::vector<T> rows;
  while (csv.Next()) {
    rows.push_back(row(csv, header));
    if (csv.error()) break;
  }
  if (!csv.error() && rows.empty()) csv.Fail("no rows");
  if (csv.error()) return std::unexpected(*csv.error());
  return rows;
}

std::vector<std::string> Models(CsvReader& csv, std::size_t field) {
  std::vector<std::string> models;
  if (csv.Text(field).empty()) return models;
  std::string_view rest = csv.Name(field);
  while (true) {
    const auto bar = rest.find('|');
    if (rest.substr(0, bar).empty()) csv.Fail("gpu_spec: an empty model name");
    models.emplace_back(rest.substr(0, bar));
    if (bar == std::string_view::npos) return models;
    rest.remove_prefix(bar + 1);
  }
}

OpenbPod ReadPod(CsvReader& csv, bool with_times) {
  OpenbPod pod{.name = std::string(csv.Name(0)),
               .cpu_milli = csv.Integer(1, 0, kMaxCpuMilli),
               .memory_mib = csv.Integer(2, 0, kMaxMemoryMib),
               .gpus = csv.Integer(3, 0, kMaxGpus),
               .gpu_milli = csv.Integer(4, 0, 1000)};
  if (pod.gpus == 0 && pod.gpu_milli != 0) csv.Fail("gpu_milli without a GPU");
  if (pod.gpus == 1 && pod.gpu_milli == 0) csv.Fail("gpu_milli: 0 of one GPU");
  if (pod.gpus > 1 && pod.gpu_milli != 1000) csv.Fail("gpu_milli: several GPUs are whole ones");
  if (!with_times) return pod;
  pod.models = Models(csv, 5);
  pod.qos = csv.Text(6).empty() ? "" : csv.Name(6);
  pod.creation_s = csv.Integer(8, 0, kMaxSeconds);
  pod.deletion_s = csv.OptionalInteger(9, 0, kMaxSeconds);
  pod.scheduled_s = csv.OptionalInteger(10, 0, kMaxSeconds);
  return pod;
}

}  // namespace

Traced<OpenbNode> ReadOpenbNodes(std::string_view text, const std::string& file) {
  std::set<std::string, std::less<>> names;
  return Read<OpenbNode>(text, file,
                         std::array<std::string_view, 1>{"sn,cpu_milli,memory_mib,gpu,model"},
                         [&names](CsvReader& csv, int) {
                           OpenbNode node{.name = std::string(csv.Name(0)),
                                          .cpu_milli = csv.Integer(1, 0, kMaxCpuMilli),
                                          .memory_mib = csv.Integer(2, 0, kMaxMemoryMib),
                                          .gpus = csv.Integer(3, 0, kMaxGpus)};
                           if (node.gpus > 0 || !csv.Text(4).empty()) node.model = csv.Name(4);
                           if (!names.insert(node.name).second)
                             csv.Fail("sn: a second node `" + node.name + "`");
                           return node;
                         });
}

Traced<OpenbPod> ReadOpenbPods(std::string_view text, const std::string& file) {
  std::set<std::string, std::less<>> names;
  return Read<OpenbPod>(
      text, file,
      std::array<std::string_view, 2>{"name,cpu_milli,memory_mib,num_gpu,gpu_milli",
                                      "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,"
                                      "pod_phase,creation_time,deletion_time,scheduled_time"},
      [&names](CsvReader& csv, int header) {
        OpenbPod pod = ReadPod(csv, header == 1);
        if (!names.insert(pod.name).second) csv.Fail("name: a second pod `" + pod.name + "`");
        return pod;
      });
}

Traced<TraceJob> ReadPhillyDurations(std::string_view text, const std::string& file) {
  return Read<TraceJob>(text, file, std::array<std::string_view, 1>{"duration_s,gpus"},
                        [](CsvReader& csv, int) {
                          return TraceJob{.duration_s = csv.Integer(0, 0, kMaxSeconds),
                                          .gpus = csv.Integer(1, 1, kMaxJobGpus)};
                        });
}

Traced<TraceJob> ReadPhillyArrivals(std::string_view text, const std::string& file) {
  return Read<TraceJob>(text, file, std::array<std::string_view, 1>{"vc,arrival_s,gpus"},
                        [](CsvReader& csv, int) {
                          return TraceJob{.arrival_s = csv.Integer(1, 0, kMaxSeconds),
                                          .gpus = csv.Integer(2, 1, kMaxJobGpus),
                                          .group = std::string(csv.Name(0))};
                        });
}

Traced<TraceJob> ReadTacc(std::string_view text, const std::string& file) {
  return Read<TraceJob>(
      text, file,
      std::array<std::string_view, 1>{"job_id,model,gpus,mode,total_steps,duration_s,arrival_s"},
      [](CsvReader& csv, int) {
        csv.Integer(0, 0, kMaxCount);
        csv.Integer(4, 0, kMaxCount);
        return TraceJob{.arrival_s = csv.Integer(6, 0, kMaxSeconds),
                        .duration_s = csv.Integer(5, 0, kMaxSeconds),
                        .gpus = csv.Integer(2, 1, kMaxJobGpus),
                        .group = std::string(csv.Text(1))};
      });
}

Traced<TraceJob> ReadTiresias(std::string_view text, const std::string& file) {
  return Read<TraceJob>(text, file,
                        std::array<std::string_view, 1>{
                            "job_id,num_gpu,submit_time,iterations,model_name,duration,interval"},
                        [](CsvReader& csv, int) {
                          csv.Integer(0, 0, kMaxCount);
                          csv.Integer(3, 0, kMaxCount);
                          csv.Integer(6, 0, kMaxSeconds);
                          return TraceJob{.arrival_s = csv.Integer(2, 0, kMaxSeconds),
                                          .duration_s = csv.Integer(5, 0, kMaxSeconds),
                                          .gpus = csv.Integer(1, 1, kMaxJobGpus),
                                          .group = std::string(csv.Text(4))};
                        });
}

}  // namespace berth::sim
