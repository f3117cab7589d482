#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "tensor/dtype.h"

namespace tandem {

/// "kept_bf16": of a row that has a name, in a type.
template <typename Row>
std::string name_of_test(const testing::TestParamInfo<std::tuple<Row, DType>>& test) {
  return fmt::format("{}_{}", std::get<0>(test.param).name, name_of(std::get<1>(test.param)));
}

}  // namespace tandem
