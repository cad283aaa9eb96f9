// Properties of all quantities.
#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include <cstdint>
#include <limits>
#include <string>

#include "kube/quantity.h"
#include "tests/support/catch.h"

namespace berth::kube {
namespace {

rc::Gen<std::string> AnyResource() {
  return rc::gen::element<std::string>("cpu", "memory", "pods", "ephemeral-storage",
                                       "hugepages-2Mi", "nvidia.com/gpu", "rdma/hca");
}

/// Non-negative, including round numbers and the extremes.
rc::Gen<std::int64_t> AnyAmount() {
  return rc::gen::oneOf(
      rc::gen::nonNegative<std::int64_t>(),
      rc::gen::map(rc::gen::inRange(0, 63), [](int shift) { return std::int64_t{1} << shift; }),
      rc::gen::map(rc::gen::inRange(0, 100'000), [](int n) { return std::int64_t{n} * 1000; }),
      rc::gen::just(std::numeric_limits<std::int64_t>::max()));
}

TEST_CASE("quantity properties", "[property][kube]") {
  rc::prop("parsing what was printed gives the amount back", [] {
    const std::string resource = *AnyResource();
    const std::int64_t amount = *AnyAmount();
    const auto parsed = ParseFor(resource, Format(resource, amount));
    RC_ASSERT(parsed.has_value());
    RC_ASSERT(*parsed == amount);
  });

  rc::prop("any text is either refused or an amount, and whole covers milli", [] {
    const std::string text = *rc::gen::container<std::string>(
        rc::gen::elementOf(std::string("0123456789.+-eEinumkMGTP")));
    const auto milli = ParseMilli(text);
    const auto whole = ParseWhole(text);
    RC_ASSERT(milli.has_value() == whole.has_value());
    if (!milli) return;
    // |whole| * 1000 >= |milli|, without overflow: both are rounded away from zero.
    const std::int64_t rounded = *milli / 1000 + (*milli % 1000 > 0) - (*milli % 1000 < 0);
    const bool covers = *milli >= 0 ? *whole >= rounded : *whole <= rounded;
    RC_ASSERT(covers);
  });

  rc::prop("units agree: a decimal text is the same in every notation", [] {
    const auto n = static_cast<std::int64_t>(*rc::gen::inRange(0, 1'000'000));
    const std::string digits = std::to_string(n);
    RC_ASSERT(*ParseMilli(digits + "m") == n);
    RC_ASSERT(*ParseMilli(digits + "e-3") == n);
    RC_ASSERT(*ParseMilli(digits) == *ParseWhole(digits + "k"));
    RC_ASSERT(*ParseWhole(digits + "Ki") == n * 1024);
    RC_ASSERT(*ParseWhole(digits + "Gi") == *ParseWhole(std::to_string(n * 1024) + "Mi"));
  });
}

}  // namespace
}  // namespace berth::kube
