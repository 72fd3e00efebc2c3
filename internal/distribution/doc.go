// SPDX-License-Identifier: Apache-2.0

// Package distribution has the packages of the project's Collector distributions below it, and tests of their manifests:
// builder-config.yaml of the whole one, builder-config-quick.yaml of the one that `make run` starts.
package distribution
