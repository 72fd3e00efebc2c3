// SPDX-License-Identifier: Apache-2.0

// Package pdata turns model values into the Collector's pdata and back into
// something a person can read. It is the only room that imports pdata; the
// names it writes are those of the telemetry contract and of the semantic
// conventions whose schema URL it sets.
//
// [Builder] makes OTLP profiles of model profiles, [MetricsBuilder] OTLP metrics
// of model metrics and [LogsBuilder] OTLP logs of model logs; [Fold] walks OTLP profiles of any origin and resolves their
// dictionary.
package pdata
