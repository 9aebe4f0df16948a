#pragma once

#define DCPCTL_API __attribute__((visibility("default")))
