// SPDX-License-Identifier: Apache-2.0

package monitor

// all has a line for each monitor, in the order of the documentation.
var all = []*Descriptor{
	ProcessCPU,
	ProcessThreadCount,
	SystemLoad,
	SystemCPUPressure,
	SystemMemoryPressure,
	SystemIOPressure,
	HTTPErrorRate,
	HTTPAvgResponseTime,
}
