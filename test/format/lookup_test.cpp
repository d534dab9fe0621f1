// SPDX-License-Identifier: Apache-2.0
#include "format/lookup.h"

#include <gtest/gtest.h>

using namespace mebp::format;

namespace {

TEST(Lookup, SeedIsTheModelsOwnElseThatOfItsAdapters) {
  Model model;
  model.mutable_lora()->set_seed(7);
  EXPECT_EQ(seedOf(model), 7u);
  model.set_seed(0);
  EXPECT_EQ(seedOf(model), 0u);
}

// What a forward program names is there, and for the same blocks; the others are none's alone.
TEST(Programs, AreDerivedFromThoseThatRunForward) {
  size_t derived = 0;
  for (const ProgramTraits &forward : forwardPrograms) {
    ASSERT_TRUE(forward.isForward()) << forward.name;
    const ProgramTraits *backward = findProgram(forward.backward), *decode = findProgram(forward.decode);
    ASSERT_TRUE(backward && decode) << forward.name;
    EXPECT_TRUE(backward->is(GivesGradients) && !backward->is(Generates)) << forward.name;
    EXPECT_TRUE(decode->is(Generates) && !decode->is(GivesGradients)) << forward.name;
    for (const ProgramTraits *program : {backward, decode})
      EXPECT_TRUE(program->is(OfAdapter) == forward.is(OfAdapter) && program->is(OfHead) == forward.is(OfHead))
          << program->name;
    derived += 2;
  }
  EXPECT_EQ(derived, 6u);
  for (const ProgramTraits &program : knownPrograms) {
    EXPECT_EQ(findProgram(program.name), &program) << "two of one name";
    EXPECT_EQ(generates(program.name), program.is(Generates)) << program.name;
  }
  EXPECT_EQ(findProgram("prune"), nullptr);
}

} // namespace
