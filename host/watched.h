// The kinds of objects that a replica watches whatever else the cluster serves, and what the events
// of each are to its engine: one table for both drivers of a host (server/drivers/informers.h and
// sim/world/host_driver.h). What drivers do besides, with a node's DRA devices for example, is
// theirs.
#pragma once

#include <string>
#include <utility>

#include "engine/engine.h"

namespace berth::host {

/// Key: how a watch tells objects of the kind apart, and what Remove is given.
template <typename Object>
struct Watched;

template <>
struct Watched<kube::Node> {
  static std::string Key(const kube::ObjectMeta& meta) { return meta.name; }
  static void Upsert(engine::Engine& e, kube::Node node, engine::TimePoint now) {
    e.OnNode(std::move(node), now);
  }
  static void Remove(engine::Engine& e, const std::string& name, engine::TimePoint now) {
    e.OnNodeDeleted(name, now);
  }
};

template <>
struct Watched<kube::Namespace> {
  static std::string Key(const kube::ObjectMeta& meta) { return meta.name; }
  static void Upsert(engine::Engine& e, kube::Namespace ns, engine::TimePoint) {
    e.OnNamespace(std::move(ns));
  }
  static void Remove(engine::Engine& e, const std::string& name, engine::TimePoint) {
    e.OnNamespaceDeleted(name);
  }
};

template <>
struct Watched<kube::Pod> {
  static std::string Key(const kube::ObjectMeta& meta) { return meta.uid; }
  static void Upsert(engine::Engine& e, kube::Pod pod, engine::TimePoint now) {
    e.OnPod(std::move(pod), now);
  }
  static void Remove(engine::Engine& e, const std::string& uid, engine::TimePoint now) {
    e.OnPodDeleted(uid, now);
  }
};

template <>
struct Watched<kube::PodDisruptionBudget> {
  static std::string Key(const kube::ObjectMeta& meta) { return meta.uid; }
  static void Upsert(engine::Engine& e, kube::PodDisruptionBudget budget, engine::TimePoint) {
    e.OnDisruptionBudget(std::move(budget));
  }
  static void Remove(engine::Engine& e, const std::string& uid, engine::TimePoint) {
    e.OnDisruptionBudgetDeleted(uid);
  }
};

/// The API server resolves spec.priority itself; the classes are only watched for their names.
template <>
struct Watched<kube::PriorityClass> {
  static std::string Key(const kube::ObjectMeta& meta) { return meta.name; }
  static void Upsert(engine::Engine&, const kube::PriorityClass&, engine::TimePoint) {}
  static void Remove(engine::Engine&, const std::string&, engine::TimePoint) {}
};

}  // namespace berth::host
