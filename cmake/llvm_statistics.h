// SPDX-License-Identifier: Apache-2.0
//
// LLVM as it is packaged counts no statistics. With assertions, its headers would give them fields that nothing sets.
#pragma once

#define NDEBUG
#include <llvm/ADT/Statistic.h>
#undef NDEBUG
#include <cassert>
