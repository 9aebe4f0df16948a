// `bench staging --save`: the training loop with its checkpoints, one folder per mode, and its report.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "line/context.h"
#include "staging/train.h"

namespace dcp::cmd {

struct SaveFlags {
  std::string folder, modes, export_dtype;
  double step_ms = 200;
  bool no_sync = false;
  TrainSpec train;

  // Throws usage.
  TrainSpec spec() const;
  std::vector<SaveMode> wanted_modes() const;
};
void add_save(Command& command, SaveFlags& flags);

struct TrainingReport {
  std::string folder;
  TrainResult without_saves;
  std::vector<TrainResult> modes;

  void print(const Context& context) const;
  void json(JsonWriter& out) const;
  std::string verdict() const;
  void sections(JsonWriter& json) const;
};

// Creates the folder of --save, which must be empty, with one folder per mode. Throws output_exists, and what train() throws.
TrainingReport run_training(const SaveFlags& flags, Device& device, const Workload& workload, Context& context);

}  // namespace dcp::cmd
