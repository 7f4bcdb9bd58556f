// Reads and prints pipelines, and checks the forms between their passes.

#include "offload/PassManager/Pipeline.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"

namespace offload {
namespace {

/// Cuts the text up to the next comma outside of braces off its front.
llvm::Expected<llvm::StringRef> takeStep(llvm::StringRef &text) {
  const size_t brace = text.find('{'), comma = text.find(',');
  size_t end = comma;
  if (brace < comma) {
    const size_t close = text.find('}', brace);
    if (close == llvm::StringRef::npos)
      return makeError("'" + text + "' has a '{' without its '}'");
    end = text.find(',', close);
  }
  llvm::StringRef step = text.substr(0, end);
  text = end == llvm::StringRef::npos ? llvm::StringRef()
                                      : text.drop_front(end + 1);
  if (end != llvm::StringRef::npos && text.trim().empty())
    return makeError("the list of passes ends with ','");
  return step.trim();
}

/// Characters with a meaning in the text, written %HH in values.
constexpr llvm::StringLiteral kSpecial = " \t,{}=%";

std::string escape(llvm::StringRef value) {
  std::string text;
  for (char c : value) {
    if (kSpecial.contains(c))
      text += '%' + llvm::toHex(llvm::StringRef(&c, 1));
    else
      text += c;
  }
  return text;
}

std::string unescape(llvm::StringRef text) {
  std::string value;
  while (!text.empty()) {
    if (text.front() == '%' && text.size() > 2 && llvm::isHexDigit(text[1]) &&
        llvm::isHexDigit(text[2])) {
      value += static_cast<char>(llvm::hexFromNibbles(text[1], text[2]));
      text = text.drop_front(3);
    } else {
      value += text.front();
      text = text.drop_front();
    }
  }
  return value;
}

llvm::Error parseOptions(llvm::StringRef text, PipelineStep &step) {
  llvm::SmallVector<llvm::StringRef, 4> parts;
  llvm::SplitString(text, parts);
  for (llvm::StringRef part : parts) {
    auto [key, value] = part.split('=');
    if (key.empty() || value.empty())
      return makeError("option '" + part + "' of pass '" + step.pass->flag +
                       "' is not key=value");
    step.options.emplace_back(key.str(), unescape(value));
  }
  return llvm::Error::success();
}

llvm::Expected<PipelineStep> parseStep(llvm::StringRef text) {
  auto [name, rest] = text.split('{');
  PipelineStep step;
  llvm::Expected<const PassInfo *> pass = findPass(name.rtrim());
  if (!pass)
    return pass.takeError();
  step.pass = *pass;
  if (name.size() == text.size())
    return step;
  auto [options, behind] = rest.split('}');
  if (!behind.trim().empty())
    return makeError("'" + behind.trim() + "' follows the options of pass '" +
                     step.pass->flag + "': put a ',' between passes");
  if (llvm::Error error = parseOptions(options, step))
    return error;
  return step;
}

/// Passes that lead from one form to another, in the order of the table; what
/// keeps the first form is left out.
std::string passesBetween(Form from, Form to) {
  if (from > to)
    for (const PassInfo &info : passTable())
      if (!info.takes && info.leaves == to)
        return info.flag.str();
  std::string text;
  Form form = from;
  for (const PassInfo &info : passTable()) {
    if (form == to)
      break;
    if (info.takes != form || (form == from && info.leaves == form))
      continue;
    if (!text.empty())
      text += ',';
    text += info.flag;
    form = info.leaves;
  }
  return text;
}

} // namespace

std::string nearestName(llvm::StringRef name,
                        llvm::ArrayRef<llvm::StringRef> names) {
  llvm::StringRef nearest;
  unsigned least = static_cast<unsigned>(name.size()) / 2 + 1;
  for (llvm::StringRef candidate : names) {
    const unsigned distance = name.edit_distance(candidate, true, least);
    if (distance < least) {
      least = distance;
      nearest = candidate;
    }
  }
  return nearest.str();
}

llvm::Expected<Pipeline> parsePipeline(llvm::StringRef text) {
  Pipeline pipeline;
  if (text.trim().empty())
    return makeError("the list of passes is empty");
  while (!text.trim().empty()) {
    llvm::Expected<llvm::StringRef> part = takeStep(text);
    if (!part)
      return part.takeError();
    llvm::Expected<PipelineStep> step = parseStep(*part);
    if (!step)
      return step.takeError();
    pipeline.push_back(std::move(*step));
  }
  return pipeline;
}

std::string printPipeline(const Pipeline &pipeline) {
  std::string text;
  for (const PipelineStep &step : pipeline) {
    if (!text.empty())
      text += ',';
    text += step.pass->flag;
    if (step.options.empty())
      continue;
    text += '{';
    for (const auto &[key, value] : step.options) {
      if (text.back() != '{')
        text += ' ';
      text.append(key).append(1, '=').append(escape(value));
    }
    text += '}';
  }
  return text;
}

llvm::Expected<Pipeline> namedPipeline(llvm::StringRef name) {
  llvm::SmallVector<llvm::StringRef, 4> names;
  for (const PipelineInfo &pipeline : pipelineTable()) {
    if (pipeline.name == name)
      return parsePipeline(pipeline.passes);
    names.push_back(pipeline.name);
  }
  return makeError("no pipeline is called '" + name + "'; there is " +
                   llvm::join(names, ", "));
}

llvm::Error checkForms(const Pipeline &pipeline, Form form) {
  for (const PipelineStep &step : pipeline) {
    const PassInfo &pass = *step.pass;
    if (pass.takes && *pass.takes != form)
      return makeError("pass '" + pass.flag + "' takes a graph of form " +
                       formName(*pass.takes) + ", but gets one of form " +
                       formName(form) + ": run " +
                       passesBetween(form, *pass.takes) + " first");
    form = pass.leaves;
  }
  return llvm::Error::success();
}

} // namespace offload
