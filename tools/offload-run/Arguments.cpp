// Reads the command line of offload-run.
//
// In:  the flags.
// Out: Arguments; the text of --help.
// Not: files that flags name (Inputs.cpp reads them).

#include "Arguments.h"

#include <CLI/CLI.hpp>

#include <charconv>
#include <iostream>

namespace offload::run {

namespace {

using rt::Error;

std::vector<NamedFile> namedFiles(const std::string &flag,
                                  const std::vector<std::string> &texts) {
  std::vector<NamedFile> files;
  for (const std::string &text : texts) {
    size_t equals = text.find('=');
    if (equals == 0 || equals == std::string::npos || equals + 1 == text.size())
      throw Error(flag + " takes NAME=FILE.npy, not '" + text + "'");
    NamedFile file(text.substr(0, equals), text.substr(equals + 1));
    for (const NamedFile &other : files)
      if (other.first == file.first)
        throw Error(flag + " gives '" + file.first + "' twice, by '" +
                    other.second + "' and by '" + file.second + "'");
    files.push_back(std::move(file));
  }
  return files;
}

std::vector<std::string> splitAtColons(const std::string &text) {
  std::vector<std::string> parts(1);
  for (char c : text)
    if (c == ':')
      parts.emplace_back();
    else
      parts.back() += c;
  return parts;
}

template <typename T> bool readNumber(const std::string &text, T &value) {
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

rt::QueueDelay queueDelay(const std::string &text) {
  std::vector<std::string> parts = splitAtColons(text);
  rt::QueueDelay delay;
  std::optional<Queue> queue = parseQueue(parts[0]);
  if (!queue || static_cast<unsigned>(*queue) >= kNumQueues ||
      parts.size() < 2 || parts.size() > 3 ||
      !readNumber(parts[1], delay.milliseconds) || delay.milliseconds < 0 ||
      (parts.size() == 3 && !readNumber(parts[2], delay.seed)))
    throw Error("--delay takes QUEUE:MS or QUEUE:MS:SEED with a queue of "
                "compute, h2d, d2h and host, not '" +
                text + "'");
  delay.queue = *queue;
  return delay;
}

StatsForm statsForm(const std::string &text) {
  if (text.empty())
    return StatsForm::None;
  if (text == "json")
    return StatsForm::Json;
  if (text == "text")
    return StatsForm::Text;
  throw Error("--stats is json or text, not '" + text + "'");
}

/// Flags as text, before their meaning is read.
struct Flags {
  std::vector<std::string> inputs, states, weights, delays;
  std::string stats;
};

void declare(CLI::App &app, Arguments &arguments, Flags &flags) {
  app.set_help_flag("--help,-h", "Print this text");
  app.add_option("file", arguments.file, "The .off file to run")
      ->required()
      ->type_name("FILE");
  app.add_option("--input", flags.inputs,
                 "Value of an input; may be given several times")
      ->type_name("NAME=FILE.npy")
      ->allow_extra_args(false);
  app.add_option("--inputs", arguments.inputsArchives,
                 "Values of inputs by name; given several times, one run after "
                 "another in one session")
      ->type_name("FILE.npz")
      ->allow_extra_args(false);
  app.add_option("--random-inputs", arguments.randomSeed,
                 "Draw inputs that have no value by this seed: floats from the "
                 "normal distribution, integers 0 or 1, bools")
      ->type_name("SEED");
  app.add_option("--output", arguments.output,
                 "Write the outputs of the last run by name")
      ->type_name("FILE.npz");
  app.add_option("--state", flags.states,
                 "Set a state before the first run; may be given several times")
      ->type_name("NAME=FILE.npy")
      ->allow_extra_args(false);
  app.add_option("--output-state", arguments.outputState,
                 "Write all states after the last run by name")
      ->type_name("FILE.npz");
  app.add_option("--weight", flags.weights,
                 "Replace a weight, under its name in the source model, before "
                 "the first run; may be given several times")
      ->type_name("NAME=FILE.npy")
      ->allow_extra_args(false);
  app.add_option("--weights", arguments.weightsArchives,
                 "Replace weights by name; given several times, all runs are "
                 "done with each of them in turn, in one session")
      ->type_name("FILE.npz")
      ->allow_extra_args(false);
  app.add_option("--output-weights", arguments.outputWeights,
                 "Write all weights after the last run by name")
      ->type_name("FILE.npz");
  app.add_flag("--list-weights", arguments.listWeights,
               "Print names, types and sizes of weights, and run nothing");
  app.add_option("--repeat", arguments.repeat, "How many times to run all that")
      ->type_name("N");
  app.add_option("--device", arguments.session.device,
                 "Where to run: host, or cuda:N")
      ->type_name("DEVICE");
  app.add_option("--threads", arguments.threads,
                 "Threads that one kernel may use: 1 to " +
                     std::to_string(kMostThreads))
      ->type_name("N");
  app.add_option("--stats", flags.stats,
                 "Print predicted and measured figures: json or text")
      ->type_name("FORM");
  app.add_option("--timeline", arguments.timeline,
                 "Write what the queues did in the last " +
                     std::to_string(kTimedRuns) +
                     " runs as a Chrome trace (chrome://tracing, Perfetto)")
      ->type_name("FILE.json");
  app.add_flag_callback(
      "--nondeterministic",
      [&arguments] { arguments.session.deterministic = false; },
      "Let libraries on a card take the fastest algorithm, also one whose bits "
      "differ from run to run");
  app.add_flag("--poison", arguments.session.poison,
               "Fill device memory with NaN before its first and after its "
               "last use");
  app.add_option("--delay", flags.delays,
                 "Delay each operation of a queue by MS milliseconds, or by a "
                 "random time up to MS; may be given several times")
      ->type_name("QUEUE:MS[:SEED]")
      ->allow_extra_args(false);
  app.add_option("--data-folder", arguments.session.dataFolders,
                 "Folder outside of the file's that weights may be read from; "
                 "may be given several times")
      ->type_name("DIR")
      ->allow_extra_args(false);
}

/// CLI11's message as one line.
std::string oneLine(std::string text) {
  for (char &c : text)
    if (c == '\n')
      c = ' ';
  while (!text.empty() && text.back() == ' ')
    text.pop_back();
  return text;
}

} // namespace

std::optional<Arguments> parseArguments(int argc, char **argv) {
  Arguments arguments;
  Flags flags;
  CLI::App app("Runs a .off file that offload-opt has made.", "offload-run");
  declare(app, arguments, flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp &) {
    std::cout << app.help();
    return std::nullopt;
  } catch (const CLI::ParseError &error) {
    throw Error(oneLine(error.what()) + "; --help lists the flags");
  }
  arguments.inputs = namedFiles("--input", flags.inputs);
  arguments.states = namedFiles("--state", flags.states);
  arguments.weights = namedFiles("--weight", flags.weights);
  for (const std::string &text : flags.delays)
    arguments.session.delays.push_back(queueDelay(text));
  arguments.stats = statsForm(flags.stats);
  arguments.session.keepTimes =
      arguments.stats != StatsForm::None || !arguments.timeline.empty();
  if (!arguments.timeline.empty())
    arguments.session.timedRuns = kTimedRuns;
  if (arguments.repeat < 1)
    throw Error("--repeat is at least 1, not " +
                std::to_string(arguments.repeat));
  if (arguments.threads &&
      (*arguments.threads < 1 || *arguments.threads > kMostThreads))
    throw Error("--threads is 1 to " + std::to_string(kMostThreads) + ", not " +
                std::to_string(*arguments.threads));
  return arguments;
}

} // namespace offload::run
