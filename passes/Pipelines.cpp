// The pipelines that have a name.
//
// Each ends with the proof: nothing is written that verify-schedule refuses.

#include "offload/PassManager/Pipeline.h"

namespace offload {

llvm::ArrayRef<PipelineInfo> pipelineTable() {
  static const PipelineInfo table[] = {
      {"infer",
       "fuse-linear,fuse-gelu,simplify-layout,classify,assign-plan,"
       "insert-staging,"
       "insert-grad-transfer,verify-schedule",
       "schedule a plain model for inference"},
  };
  return table;
}

} // namespace offload
