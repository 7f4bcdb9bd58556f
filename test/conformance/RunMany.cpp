// offload-run again and again in one process, which on a card has to open its
// libraries only once.
//
// In:  lines on standard input, each the arguments of one offload-run as a JSON
//      array of texts.
// Out: for each a line on standard output, an object: "code", and what that
//      offload-run writes to standard output ("out") and to standard error
//      ("err").

#include "Run.h"

#include <iostream>
#include <sstream>

#include <nlohmann/json.hpp>

using namespace offload::run;

namespace {

/// What is written to a stream meanwhile.
class Capture {
public:
  explicit Capture(std::ostream &stream)
      : stream(stream), old(stream.rdbuf(text.rdbuf())) {}
  Capture(const Capture &) = delete;
  Capture &operator=(const Capture &) = delete;
  ~Capture() { stream.rdbuf(old); }
  std::string str() const { return text.str(); }

private:
  std::ostringstream text;
  std::ostream &stream;
  std::streambuf *old;
};

nlohmann::json answer(std::vector<std::string> words, InterruptGuard &guard) {
  words.insert(words.begin(), "offload-run");
  std::vector<char *> pointers;
  for (std::string &word : words)
    pointers.push_back(word.data());
  Capture out(std::cout), err(std::cerr);
  int code = 1;
  try {
    std::optional<Arguments> arguments =
        parseArguments(static_cast<int>(pointers.size()), pointers.data());
    code = arguments ? runFile(*arguments, guard) : 0;
  } catch (const std::exception &error) {
    std::cerr << "offload-run: error: " << error.what() << "\n";
  }
  return {{"code", code}, {"out", out.str()}, {"err", err.str()}};
}

} // namespace

int main() {
  static InterruptGuard &guard = *new InterruptGuard;
  for (std::string line; std::getline(std::cin, line);)
    std::cout << answer(nlohmann::json::parse(line), guard).dump() << std::endl;
  return 0;
}
