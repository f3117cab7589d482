#include <cstdio>

namespace {

/// As a program's global objects, which may take instructions that are not there.
struct Early {
  Early() { std::puts("a global object"); }
};
const Early early;

}  // namespace

int main() {
  std::puts("main");
  return 0;
}
