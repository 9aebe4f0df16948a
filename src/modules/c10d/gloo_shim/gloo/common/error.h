#pragma once  // see ../algorithm.h
