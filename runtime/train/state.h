// SPDX-License-Identifier: Apache-2.0
//
// Everything that a continuation needs that is bitwise equal on the same family of kernels, in one file:
// FOLDER/state.bin (state_file.h). The one saved before it stays as FOLDER/state.previous.bin.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/core/status.h"
#include "runtime/train/engine.h"

namespace mebp {

Status saveState(const Engine &engine, const std::string &folder, const void *user, uint64_t userBytes);
// The state of a session that owns all, of one that owns a part and the states that the other parts have saved.
Status joinStates(const Engine &engine, const std::string &folder, const std::vector<std::string> &parts,
                  const void *user, uint64_t userBytes);
// Changes the session only where the whole file fits it; what there is to say of it is then in engine.notes. Where
// `user` has too little room, *userBytes becomes what it needs.
Status loadState(Engine &engine, const std::string &folder, void *user, uint64_t *userBytes);
// The steps of the state that loadState would take; MEBP_NOT_FOUND where there is none.
Status readStateSteps(const std::string &folder, uint64_t &steps);
// The most that saving this session's state there adds to the disk: two generations and the next.
uint64_t stateDiskBytes(const Engine &engine, const std::string &folder);

} // namespace mebp
