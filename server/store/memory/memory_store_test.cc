#include "server/store/memory/memory_store.h"

#include "server/store/store_conformance_testing.h"

namespace warmring {
namespace {

INSTANTIATE_TEST_SUITE_P(Memory, StoreConformanceTest,
                         ::testing::Values([] { return std::make_unique<MemoryStore>(); }));

}  // namespace
}  // namespace warmring
