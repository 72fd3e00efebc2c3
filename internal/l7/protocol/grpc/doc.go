// SPDX-License-Identifier: Apache-2.0

// Package grpc knows what gRPC puts into HTTP/2: the name of a method, statuses, and messages within a body.
//
// It reads nothing from connections itself: a call of gRPC is an exchange of HTTP/2, whose package asks this one what it means. gRPC-Web
// is another protocol: its statuses are within its bodies.
package grpc
