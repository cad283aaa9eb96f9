#include "host/evictions.h"

#include <utility>

#include "cluster/plan_claim.h"

namespace berth::host {

void Evictions::Begin(engine::EvictPod eviction) {
  if (eviction.dry_run) return Send(std::move(eviction), 1, /*unsure=*/false);
  Mark(std::move(eviction), 1);
}

void Evictions::Mark(engine::EvictPod eviction, int tries) {
  const Id id = out_.NewId();
  MarkVictim order = MarkOrder(id, eviction, /*sets_condition=*/eviction.by_delete);
  order.attempt = tries;
  out_.Put(std::move(order));
  writes_.emplace(id, Write{.what = std::move(eviction), .marks = true, .tries = tries});
}

void Evictions::Begin(engine::FindNeeded question) {
  engine::EvictPod what{.pod = {.ns = std::move(question.ns),
                                .name = question.object.name,
                                .uid = engine::KeyOf(question.object)},
                        .workload = std::move(question.workload),
                        .id = std::move(question.id),
                        .dry_run = true};
  Find(std::move(what), std::move(question.object), 1);
}

void Evictions::Find(engine::EvictPod question, kube::NeededObject object, int tries) {
  const Id id = out_.NewId();
  out_.Put(FindObject{.id = id, .ns = question.pod.ns, .object = object, .attempt = tries});
  writes_.emplace(id,
                  Write{.what = std::move(question), .tries = tries, .object = std::move(object)});
}

bool Evictions::Wants(Id write, const engine::Engine& engine) const {
  const Write& under_way = writes_.at(write);
  return engine.StillEvicts(under_way.what.workload, under_way.what.id);
}

void Evictions::Send(engine::EvictPod eviction, int tries, bool unsure) {
  const Id id = out_.NewId();
  out_.Put(Evict{.id = id,
                 .pod = eviction.pod,
                 .dry_run = eviction.dry_run,
                 .by_delete = eviction.by_delete,
                 .attempt = tries});
  writes_.emplace(id, Write{.what = std::move(eviction), .tries = tries, .unsure = unsure});
}

std::optional<Evictions::Answer> Evictions::Finished(Id write, const Result& result) {
  Write ended = std::move(writes_.extract(write).mapped());
  const bool gone = IsGone(result);
  const bool done = result.outcome == kube::WriteOutcome::kDone;
  constexpr int kMostTries = 3;
  const bool unknown = result.outcome == kube::WriteOutcome::kUnknown;
  if (ended.object) {
    if (unknown && ended.tries < kMostTries) {
      Find(std::move(ended.what), *std::move(ended.object), ended.tries + 1);
      return std::nullopt;
    }
    return Answer{.what = std::move(ended.what),
                  .accepted = result.outcome != kube::WriteOutcome::kNotFound};
  }
  // It may have been done: the watch will show that.
  const bool maybe = (unknown || ended.unsure) && !ended.what.dry_run && !ended.marks;
  if (unknown && ended.tries < kMostTries) {
    // Both requests are idempotent.
    const int tries = ended.tries + 1;
    ended.marks ? Mark(std::move(ended.what), tries) : Send(std::move(ended.what), tries, maybe);
    return std::nullopt;
  }
  if (ended.marks && done) {
    Send(std::move(ended.what), 1, /*unsure=*/false);
    return std::nullopt;
  }
  return Answer{.what = std::move(ended.what), .accepted = gone || done || maybe};
}

}  // namespace berth::host
