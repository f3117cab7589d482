#pragma once

// The one place that knows oneDNN's versions: primitive descriptors took an operation descriptor in
// 2.x and take its arguments directly in 3.x. Everything else says
// `onednn::make_pd<Primitive>(...)` with 3.x's arguments. Included by .cpp files only.

#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <utility>

#include "base/error.h"
#include "device/cpu_context.h"

namespace tandem {

struct CpuContext::OneDnn {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
};

namespace onednn {

#if DNNL_VERSION_MAJOR >= 3

/// Primitive descriptor of a forward primitive: make_pd<P>(engine, attributes, 3.x arguments...).
template <typename Primitive, typename... Args>
typename Primitive::primitive_desc make_pd(const dnnl::engine& engine,
                                           const dnnl::primitive_attr& attributes, Args&&... args) {
  return typename Primitive::primitive_desc(engine, std::forward<Args>(args)..., attributes);
}

/// Primitive descriptor of a backward primitive, with the forward one as the last argument: `hint`.
template <typename Primitive, typename Hint, typename... Args>
typename Primitive::primitive_desc make_backward_pd(const dnnl::engine& engine,
                                                    const dnnl::primitive_attr& attributes,
                                                    const Hint& hint, Args&&... args) {
  return typename Primitive::primitive_desc(engine, std::forward<Args>(args)..., hint, attributes);
}

#else

template <typename Primitive, typename... Args>
typename Primitive::primitive_desc make_pd(const dnnl::engine& engine,
                                           const dnnl::primitive_attr& attributes, Args&&... args) {
  return typename Primitive::primitive_desc(typename Primitive::desc(std::forward<Args>(args)...),
                                            attributes, engine);
}

template <typename Primitive, typename Hint, typename... Args>
typename Primitive::primitive_desc make_backward_pd(const dnnl::engine& engine,
                                                    const dnnl::primitive_attr& attributes,
                                                    const Hint& hint, Args&&... args) {
  return typename Primitive::primitive_desc(typename Primitive::desc(std::forward<Args>(args)...),
                                            attributes, engine, hint);
}

#endif

/// "2.6.3"
inline std::string version() {
  const dnnl_version_t* v = dnnl_version();
  return fmt::format("{}.{}.{}", v->major, v->minor, v->patch);
}

}  // namespace onednn
}  // namespace tandem
