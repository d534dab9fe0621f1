// SPDX-License-Identifier: Apache-2.0
//
// What systems do in ways of their own, a file for each: linux.cpp (with glibc, musl and Android's C library) and
// apple.cpp; posix.cpp has the maps that they make alike. What POSIX has is used as it is elsewhere, but for maps,
// which are all here. docs/porting.md says what a port has to give. An `int` is 0 or an errno. Nothing here allocates.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace mebp::platform {

// Maps.
uint64_t pageBytes();
// Zeros that cost nothing until they are touched; null where the system refuses them.
void *mapMemory(uint64_t bytes);
// A file's bytes, read-only, from an offset of a page on; null and errno.
void *mapFile(int descriptor, uint64_t offset, uint64_t bytes);
// One page of zeros where another page was. May be called in a signal's handler.
bool replaceByZeros(void *page);
void unmap(void *start, uint64_t bytes);
// As mapMemory, for multiples of 64 bytes: a byte before what it gives, or behind, cannot be touched. But for a part of
// a page before it.
void *mapGuarded(uint64_t bytes);
void unmapGuarded(void *start, uint64_t bytes);

// Advice on a map of a file, `start` at `offset`, both a page's. What the system cannot do changes no result.
void prefetchMap(const void *start, uint64_t bytes);
// Out of the map, and out of the system's cache unless another map has them.
void dropMap(const void *start, int descriptor, uint64_t offset, uint64_t bytes);
// In memory when it returns; EIO where the disk fails. A system may leave that to the first touch.
int loadMap(const void *start, uint64_t bytes);

// Files.
// What was written is on the medium itself. Where a system's fsync stops at the drive's cache, this does not.
int syncFile(int descriptor);
// The system has no pages of it left that only memory holds.
void cleanPages(int descriptor);
// The file has this many bytes and room for them on the disk.
int reserve(int descriptor, uint64_t bytes);
void prefetchFile(int descriptor, uint64_t offset, uint64_t bytes);
void startWriting(int descriptor, uint64_t offset, uint64_t bytes);
// Waits for it; EIO or ENOSPC where it failed.
int finishWriting(int descriptor, uint64_t offset, uint64_t bytes);
// Whether files of this file system are in memory.
bool isInMemory(int descriptor);
// Swaps two names at once; ENOTSUP where the file system cannot.
int exchangeNames(const char *first, const char *second);

// Memory.
// Anonymous memory plus the resident pages of writable shared maps of this process; 0 where the system does not tell.
uint64_t writtenMemoryBytes();
uint64_t physicalMemoryBytes(); // 0 where the system does not tell

// Threads.
// As many as this process may run at once.
uint32_t availableThreads();
// To be called by a thread that computes for somebody who waits.
void beginWorkerThread();
// How late the calling thread may wake from a wait with an end, in ns; gives what it was, 0 where systems have no such.
uint64_t setTimerSlack(uint64_t nanoseconds);
// Sleeps unless the word has another value; may return without a reason.
void sleepWhile(const std::atomic<uint32_t> &word, uint32_t value);
// Wakes those that sleep on this word, `most` at least where there are as many.
void wake(const std::atomic<uint32_t> &word, uint32_t most);

// Code.
// The absolute path of the file that has this code, with its final zero: the program's own, or a library's. Empty where
// the system does not tell, or where it does not fit.
void fileOfCode(const void *code, char *path, size_t room);
// Whether this CPU has Arm's products of bf16.
bool hasArmBf16();

} // namespace mebp::platform
