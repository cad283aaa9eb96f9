// `berth simulate faults` as a separate program: for bug hunting and for tests/mutations, without
// the whole binary.
#include <iostream>

#include "sim/faults/fault_command.h"

int main(int argc, char** argv) {
  CLI::App app{"the fault search alone"};
  berth::sim::FaultOptions options;
  berth::sim::AddFaultsCommand(app, options);
  app.require_subcommand(1);
  CLI11_PARSE(app, argc, argv);
  return berth::sim::RunFaults(options, std::cout);
}
