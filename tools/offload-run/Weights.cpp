// Weights that the command line replaces.
//
// In:  flags, and what the session says of its weights.
// Out: tensors by name, in the weights' own types.
// How: one round for each archive; single files are set in every round.

#include "Weights.h"

#include "Inputs.h"

namespace offload::run {

std::vector<rt::TensorMap> readWeights(const Arguments &arguments,
                                       const rt::Session &session) {
  std::vector<rt::ValueInfo> infos = session.weights();
  std::vector<rt::TensorMap> rounds;
  for (const std::string &archive : arguments.weightsArchives)
    rounds.push_back(readNamed(&archive, arguments.weights, infos, "weight"));
  if (rounds.empty())
    rounds.push_back(readNamed(nullptr, arguments.weights, infos, "weight"));
  return rounds;
}

rt::TensorMap allWeights(rt::Session &session) {
  rt::TensorMap weights;
  for (const rt::ValueInfo &info : session.weights())
    weights[info.name] = session.weight(info.name);
  return weights;
}

std::string weightLines(const rt::Session &session) {
  std::string text;
  for (const rt::ValueInfo &info : session.weights()) {
    text += info.name + ": " + std::string(dataTypeName(info.type)) + "[";
    for (size_t i = 0; i < info.dims.size(); ++i)
      text += (i ? "," : "") + std::to_string(info.dims[i]);
    text += "]\n";
  }
  return text;
}

} // namespace offload::run
