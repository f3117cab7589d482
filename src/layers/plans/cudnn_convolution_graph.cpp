#include "layers/plans/cudnn_convolution_graph.h"

#include <cudnn_frontend.h>

#include <array>
#include <unordered_map>
#include <vector>

#include "base/heartbeat.h"
#include "base/log.h"
#include "device/cuda_check.h"
#include "device/cuda_libraries.h"

namespace tandem {
namespace {

namespace fe = cudnn_frontend;
using FeTensor = std::shared_ptr<fe::graph::Tensor_attributes>;

constexpr std::int64_t first_uid = 1;
constexpr std::int64_t second_uid = 2;
constexpr std::int64_t result_uid = 3;

fe::DataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return fe::DataType_t::FLOAT;
    case DType::f16:
      return fe::DataType_t::HALF;
    case DType::bf16:
      return fe::DataType_t::BFLOAT16;
    default:
      throw Error(fmt::format("cuDNN does not convolve {}", name_of(dtype)));
  }
}

/// A dense tensor whose channels lie innermost. cuDNN names extents in the order N, C, H, W.
struct Layout {
  std::vector<std::int64_t> extents;
  std::vector<std::int64_t> strides;
};

Layout channels_last(std::int64_t n, std::int64_t h, std::int64_t w, std::int64_t c) {
  return {.extents = {n, c, h, w}, .strides = {h * w * c, 1, w * c, c}};
}

struct Operands {
  Layout x, weight, y;
};

Operands operands_of(const ConvolutionProblem& p) {
  const std::int64_t kernel = p.window.kernel;
  return {.x = channels_last(p.batch, p.rows, p.columns, p.channels),
          .weight = channels_last(p.out_channels, kernel, kernel, p.group_channels()),
          .y = channels_last(p.batch, p.out_rows, p.out_columns, p.out_channels)};
}

FeTensor input(fe::graph::Graph& graph, const char* name, std::int64_t uid, const Layout& layout,
               DType dtype) {
  return graph.tensor(fe::graph::Tensor_attributes()
                          .set_name(name)
                          .set_uid(uid)
                          .set_dim(layout.extents)
                          .set_stride(layout.strides)
                          .set_data_type(data_type(dtype)));
}

void set_result(const FeTensor& tensor, const Layout& layout, DType dtype) {
  tensor->set_output(true)
      .set_uid(result_uid)
      .set_dim(layout.extents)
      .set_stride(layout.strides)
      .set_data_type(data_type(dtype));
}

template <typename Attributes>
Attributes windowed(const Window& window) {
  const std::vector<std::int64_t> padding(2, window.padding);
  const std::vector<std::int64_t> stride(2, window.stride);
  const std::vector<std::int64_t> dilation(2, window.dilation);
  Attributes attributes;
  attributes.set_padding(padding).set_stride(stride).set_dilation(dilation);
  return attributes;
}

void describe(fe::graph::Graph& graph, const ConvolutionProblem& p, DType result) {
  const Operands o = operands_of(p);
  const DType dtype = p.dtype();
  switch (p.operation) {
    case ConvolutionOperation::forward: {
      const auto y = graph.conv_fprop(input(graph, "x", first_uid, o.x, dtype),
                                      input(graph, "w", second_uid, o.weight, dtype),
                                      windowed<fe::graph::Conv_fprop_attributes>(p.window));
      return set_result(y, o.y, result);
    }
    case ConvolutionOperation::data_gradient: {
      const auto dx = graph.conv_dgrad(input(graph, "dy", first_uid, o.y, dtype),
                                       input(graph, "w", second_uid, o.weight, dtype),
                                       windowed<fe::graph::Conv_dgrad_attributes>(p.window));
      return set_result(dx, o.x, result);
    }
    case ConvolutionOperation::weight_gradient: {
      const auto x = input(graph, "x", first_uid, o.x, dtype);
      const auto dw = graph.conv_wgrad(input(graph, "dy", second_uid, o.y, dtype), x,
                                       windowed<fe::graph::Conv_wgrad_attributes>(p.window));
      return set_result(dw, o.weight, result);
    }
  }
}

/// What a plan may not do. Products of fp32 are exact to f32's rounding, so neither tensor cores
/// (which round the operands) nor the transforms whose constants grow the error are taken.
std::vector<fe::NumericalNote_t> barred_notes(Precision precision) {
  using Note = fe::NumericalNote_t;
  std::vector<Note> notes{
      Note::NONDETERMINISTIC,  Note::REDUCED_PRECISION_REDUCTION, Note::FFT,
      Note::WINOGRAD_TILE_4x4, Note::WINOGRAD_TILE_6x6,           Note::WINOGRAD_TILE_13x13};
  if (activation_dtype(precision) == DType::f32) notes.push_back(Note::DOWN_CONVERT_INPUTS);
  if (precision == Precision::fp32) notes.push_back(Note::TENSOR_CORE);
  return notes;
}

/// The frontend's graph of one convolution, and what the frontend has no word for: cuDNN's beta,
/// the factor of what is in the result, to which the convolution is added.
class ConvolutionGraph : public fe::graph::Graph {
 public:
  /// Puts a data gradient with a beta of one in the place of the same with zero. Goes between
  /// build_operation_graph() and create_execution_plans().
  fe::error_t add_to_result(cudnnHandle_t handle, const Window& window) {
    const std::array<std::int64_t, 2> padding{window.padding, window.padding};
    const std::array<std::int64_t, 2> stride{window.stride, window.stride};
    const std::array<std::int64_t, 2> dilation{window.dilation, window.dilation};
    try {
      const auto convolution = fe::ConvDescBuilder()
                                   .setComputeType(fe::DataType_t::FLOAT)
                                   .setMathMode(fe::ConvolutionMode_t::CROSS_CORRELATION)
                                   .setSpatialDimCount(2)
                                   .setPrePadding(2, padding.data())
                                   .setPostPadding(2, padding.data())
                                   .setSpatialStride(2, stride.data())
                                   .setDilation(2, dilation.data())
                                   .build();
      using Kind = fe::DescriptorType_t;
      operations = {std::make_shared<fe::Operation>(
          fe::OperationBuilder(Kind::OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR)
              .setdyDesc(*uid_to_tensors.at(first_uid))
              .setwDesc(*uid_to_tensors.at(second_uid))
              .setdxDesc(*uid_to_tensors.at(result_uid))
              .setcDesc(convolution)
              .setAlpha(1.0F)
              .setBeta(1.0F)
              .build())};
    } catch (const fe::cudnnException& error) {
      return {fe::error_code_t::CUDNN_BACKEND_API_FAILED, error.what()};
    }
    return create_cudnn_operation_graph(handle);
  }
};

}  // namespace

struct CudnnConvolutionGraph::Graph {
  ConvolutionGraph graph;
};

CudnnConvolutionGraph::CudnnConvolutionGraph(CudaContext& context,
                                             const ConvolutionProblem& problem, DType result)
    : context_(&context), graph_(std::make_unique<Graph>()) {
  ConvolutionGraph& graph = graph_->graph;
  graph.set_io_data_type(data_type(problem.dtype()))
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  describe(graph, problem, result);
  // A refusal is an answer here: there are other ways to compute it.
  const auto refused = [&](fe::error_t status) {
    if (status.is_bad()) {
      log_debug("cuDNN has no plan for '{}' into {}: {}", problem.key(), name_of(result),
                status.get_message());
    }
    return status.is_bad();
  };
  if (refused(graph.validate())) return;
  const cudnnHandle_t handle = context.libraries().cudnn;
  if (refused(graph.build_operation_graph(handle))) return;
  if (problem.adds && refused(graph.add_to_result(handle, problem.window))) return;
  if (refused(graph.create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK}))) return;
  graph.deselect_numeric_notes(barred_notes(problem.precision));
  plan_count_ = static_cast<int>(graph.get_execution_plan_count());
}

CudnnConvolutionGraph::~CudnnConvolutionGraph() = default;

std::string CudnnConvolutionGraph::plan_name(int index) const {
  std::string name;
  fe::error_t status = graph_->graph.get_plan_name_at_index(index, name);
  TANDEM_CHECK(status.is_good(), "cuDNN's plan {} has no name: {}", index, status.get_message());
  return name;
}

bool CudnnConvolutionGraph::build(int index, std::size_t most_workspace) {
  heartbeat();
  graph_->graph.deselect_workspace_greater_than(static_cast<std::int64_t>(most_workspace));
  if (graph_->graph.build_plan_at_index(index).is_bad()) return false;
  return graph_->graph.get_workspace_size_plan_at_index(index) >= 0 &&
         workspace(index) <= most_workspace;
}

std::size_t CudnnConvolutionGraph::workspace(int index) const {
  return static_cast<std::size_t>(graph_->graph.get_workspace_size_plan_at_index(index));
}

void CudnnConvolutionGraph::run(int index, const void* first, const void* second, void* result,
                                std::byte* workspace) const {
  // cuDNN takes inputs by the same plain pointers as outputs.
  std::unordered_map<std::int64_t, void*> operands{{first_uid, const_cast<void*>(first)},
                                                   {second_uid, const_cast<void*>(second)},
                                                   {result_uid, result}};
  cudnnHandle_t cudnn = context_->libraries().cudnn;
  TANDEM_CUDA_CHECK(cudnnSetStream(cudnn, context_->stream()));
  fe::error_t status = graph_->graph.execute_plan_at_index(cudnn, operands, workspace, index);
  if (status.is_bad()) {
    system_error("cuDNN failed to run {}: {}", plan_name(index), status.get_message());
  }
}

}  // namespace tandem
