#include "train/record/json_line.h"

#include <nlohmann/json.hpp>

namespace tandem {
namespace {

std::string dump(const nlohmann::json& value) {
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

JsonLine& JsonLine::add(std::string_view key, std::string_view json) {
  if (!fields_.empty()) fields_ += ", ";
  fields_ += dump(key);
  fields_ += ": ";
  fields_ += json;
  return *this;
}

JsonLine& JsonLine::text(std::string_view key, std::string_view value) {
  return add(key, dump(value));
}
JsonLine& JsonLine::integer(std::string_view key, std::int64_t value) {
  return add(key, dump(value));
}
JsonLine& JsonLine::real(std::string_view key, double value) { return add(key, dump(value)); }
JsonLine& JsonLine::boolean(std::string_view key, bool value) { return add(key, dump(value)); }

}  // namespace tandem
