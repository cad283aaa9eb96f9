#include <benchmark/benchmark.h>
#include <malloc.h>

int main(int argc, char** argv) {
  mallopt(M_MXFAST, 0);  // as `berth serve` does
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
