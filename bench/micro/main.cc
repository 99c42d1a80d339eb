// SPDX-License-Identifier: BSD-3-Clause

// bench_micro: measures how long malloc and free take in this project's libraries, in the C library
// and in Debian's allocators. `bench_micro --help` describes its use.
#include <getopt.h>
#include <sched.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "bench/common/allocator.h"
#include "bench/common/machine.h"
#include "bench/micro/comparison.h"
#include "bench/micro/patterns.h"
#include "bench/micro/report.h"
#include "bench/micro/runner.h"

namespace tcmalloc::bench {
namespace {

constexpr int kExitSlower = 1;
constexpr int kExitError = 2;

constexpr size_t kPilotRounds = 3;
constexpr size_t kMinRounds = 15;
constexpr uint64_t kQuickDivisor = 20;

constexpr char kHelp[] =
    R"(usage: bench_micro [options]

Times malloc and free with each allocator, preloaded into its own process. Each round runs all
allocators, in a new random order. Three patterns:

  pair     malloc and free of one hot size
  burst    allocate 100, free 100
  random   replace a random one of 1000 live objects of mixed small sizes

"median" is the median over the rounds of each process's median slice; "min" is the fastest slice.
The ratios are medians of the rounds' own ratios, with a 95 % bootstrap interval. "not slower: yes"
means that the interval of the ratio to the fastest peer reaches 1.00 or less. A pilot of 3 rounds,
which count for nothing else, determines the fastest peer.

  --rounds N         counted rounds, at least 15 (default 21)
  --only PATTERN     this pattern only; may be repeated
  --ours NAME=PATH   measure this library as ours, instead of the build's own; may be repeated
  --peer NAME=PATH   measure this peer as well; may be repeated
  --seed N           seed of the sequences, the order and the bootstrap (default 1)
  --cpu N            the CPU to measure on (default: the last one allowed)
  --json FILE        write the complete raw data
  --check            exit status 1 if one of ours is slower on some pattern, or if glibc,
                     gperftools, jemalloc or mimalloc is missing
  --quick            a twentieth of the work: tries the program; its figures are not reliable
  --help

exit status: 0 done, 1 see --check, 2 an error (for example, the wrong library served malloc)
)";

struct Arguments {
  size_t rounds = 21;
  std::vector<NamedLibrary> ours;
  std::vector<NamedLibrary> peers;
  std::string json;
  bool check = false;
  bool help = false;
  RunOptions run{.patterns = {}, .seed = 1, .cpu = 0, .divisor = 1};
};

uint64_t ParseNumber(std::string_view option, std::string_view text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw std::runtime_error(std::string(option) + " takes a number, not " + std::string(text));
  }
  return number;
}

NamedLibrary ParseLibrary(std::string_view option, std::string_view text) {
  std::optional<NamedLibrary> library = NamedLibrary::Parse(text);
  if (!library.has_value()) {
    throw std::runtime_error(std::string(option) + " takes NAME=PATH, not " + std::string(text));
  }
  return *library;
}

size_t ParsePattern(std::string_view text) {
  const size_t pattern = FindPattern(text);
  if (pattern == Patterns().size()) {
    throw std::runtime_error("there is no pattern " + std::string(text));
  }
  return pattern;
}

// Returns the last CPU that this process may use: the first one usually has the most other work.
int LastAllowedCpu() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 0;
  int last = 0;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) last = cpu;
  }
  return last;
}

Arguments ParseArguments(int argc, char** argv) {
  const option kOptions[] = {{"rounds", required_argument, nullptr, 'r'},
                             {"only", required_argument, nullptr, 'o'},
                             {"ours", required_argument, nullptr, 'u'},
                             {"peer", required_argument, nullptr, 'p'},
                             {"seed", required_argument, nullptr, 's'},
                             {"cpu", required_argument, nullptr, 'c'},
                             {"json", required_argument, nullptr, 'j'},
                             {"check", no_argument, nullptr, 'k'},
                             {"quick", no_argument, nullptr, 'q'},
                             {"help", no_argument, nullptr, 'h'},
                             {nullptr, 0, nullptr, 0}};
  Arguments arguments;
  arguments.run.cpu = LastAllowedCpu();
  for (int letter; (letter = getopt_long(argc, argv, "", kOptions, nullptr)) != -1;) {
    switch (letter) {
      case 'r':
        arguments.rounds = ParseNumber("--rounds", optarg);
        break;
      case 'o':
        arguments.run.patterns.push_back(ParsePattern(optarg));
        break;
      case 'u':
        arguments.ours.push_back(ParseLibrary("--ours", optarg));
        break;
      case 'p':
        arguments.peers.push_back(ParseLibrary("--peer", optarg));
        break;
      case 's':
        arguments.run.seed = ParseNumber("--seed", optarg);
        break;
      case 'c':
        arguments.run.cpu = static_cast<int>(ParseNumber("--cpu", optarg));
        break;
      case 'j':
        arguments.json = optarg;
        break;
      case 'k':
        arguments.check = true;
        break;
      case 'q':
        arguments.run.divisor = kQuickDivisor;
        break;
      case 'h':
        arguments.help = true;
        break;
      default:
        throw std::runtime_error("see bench_micro --help");
    }
  }
  if (optind != argc) throw std::runtime_error(std::string("not an option: ") + argv[optind]);
  if (arguments.rounds < kMinRounds) throw std::runtime_error("--rounds takes at least 15");
  if (arguments.run.cpu < 0 || arguments.run.cpu >= CPU_SETSIZE) {
    throw std::runtime_error("--cpu is out of range");
  }
  if (arguments.run.patterns.empty()) {
    for (size_t i = 0; i < Patterns().size(); ++i) arguments.run.patterns.push_back(i);
  }
  return arguments;
}

void ShowProgress(size_t round, size_t rounds) {
  if (isatty(STDERR_FILENO) == 0) return;
  fprintf(stderr, "\rround %zu of %zu%s", round, rounds, round == rounds ? "\n" : "");
}

int Main(int argc, char** argv) {
  const Arguments arguments = ParseArguments(argc, argv);
  if (arguments.help) {
    std::cout << kHelp;
    return EXIT_SUCCESS;
  }
  // Opens the file before the run, so that a wrong name does not waste a run.
  std::ofstream json;
  if (!arguments.json.empty()) {
    json.open(arguments.json);
    if (!json) throw std::runtime_error("cannot write " + arguments.json);
  }
  const std::vector<Fact> facts = DescribeMachine();
  Comparison comparison(FindAllocators(arguments.ours, arguments.peers), arguments.run);
  comparison.Run(kPilotRounds, arguments.rounds, &ShowProgress);

  PrintMachine(std::cout, facts);
  std::cout << "rounds                " << arguments.rounds << " after " << kPilotRounds
            << " of pilot; seed " << arguments.run.seed << "; "
            << (comparison.pinned() ? "pinned to" : "NOT pinned to") << " processor "
            << arguments.run.cpu << "\n";
  if (arguments.run.divisor != 1) std::cout << "--quick: these figures are no measurement\n";
  PrintAllocators(std::cout, comparison);
  PrintTables(std::cout, comparison);
  if (json.is_open()) {
    WriteJson(json, comparison, facts, std::vector<std::string>(argv, argv + argc));
    json.close();
    if (!json) throw std::runtime_error("cannot write " + arguments.json);
  }

  if (!arguments.check) return EXIT_SUCCESS;
  const std::string objections = Objections(comparison);
  std::cout << "\n" << (objections.empty() ? "check: passed\n" : objections);
  return objections.empty() ? EXIT_SUCCESS : kExitSlower;
}

}  // namespace
}  // namespace tcmalloc::bench

int main(int argc, char** argv) {
  using namespace tcmalloc::bench;
  if (argc > 1 && strcmp(argv[1], kChildArgument) == 0) {
    return RunChild({argv + 2, static_cast<size_t>(argc - 2)});
  }
  try {
    return Main(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "bench_micro: " << error.what() << "\n";
    return kExitError;
  }
}
