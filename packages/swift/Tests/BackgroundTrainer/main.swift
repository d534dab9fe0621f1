// SPDX-License-Identifier: Apache-2.0
//
// A process that trains in the background, for whoever kills it: says each step and its loss.
//   BackgroundTrainer NAME.mebp FOLDER STEPS
import Foundation
import Mebp

let bundle = try ModelBundle(folder: CommandLine.arguments[1])
let info = try bundle.info
let (vocabulary, columns) = (info.vocabulary, info.maxSequence)
var options = SessionOptions()
options.clip = 1
let steps = UInt64(CommandLine.arguments[3])!
let folder = CommandLine.arguments[2]
let run = try BackgroundRun(bundle, options, folder: folder, data: "numbers", steps: steps, saveEvery: 2) { step in
  try Batch(ids: (0..<columns).map { Int32(($0 * 7919 + Int(step) * 104729) % vocabulary) })
}
let allows = DeviceState(isCharging: true, isIdle: true, isHot: false, freeBytes: .max)
_ = try await run.train(device: { allows }) { step, result in
  FileHandle.standardOutput.write(Data("\(step) \(result.loss.bitPattern)\n".utf8))
}
FileHandle.standardOutput.write(Data("finished\n".utf8))
