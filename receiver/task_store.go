// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"context"
	"fmt"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/extension/xextension/storage"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/task"
)

// taskStore keeps the history of tasks in a storage extension of the Collector.
type taskStore struct{ client storage.Client }

var _ task.Store = (*taskStore)(nil)

// openTaskStore asks the extension that the configuration names.
func openTaskStore(ctx context.Context, host component.Host, id *component.ID, receiver component.ID) (*taskStore, error) {
	if id == nil {
		return nil, nil
	}
	extension, ok := host.GetExtensions()[*id]
	if !ok {
		return nil, fmt.Errorf("storage: there is no extension %s: list it under service::extensions", id)
	}
	from, ok := extension.(storage.Extension)
	if !ok {
		return nil, fmt.Errorf("storage: the extension %s is no storage: name one that is, such as file_storage", id)
	}
	client, err := from.GetClient(ctx, component.KindReceiver, receiver, "tasks")
	if err != nil {
		return nil, fmt.Errorf("storage: opening the extension %s: %w", id, err)
	}
	return &taskStore{client}, nil
}

// Load implements [task.Store].
func (s *taskStore) Load(ctx context.Context, keys []string) ([][]byte, error) {
	gets := make([]*storage.Operation, len(keys))
	for i, key := range keys {
		gets[i] = storage.GetOperation(key)
	}
	if err := s.client.Batch(ctx, gets...); err != nil {
		return nil, err
	}
	values := make([][]byte, len(keys))
	for i, get := range gets {
		values[i] = get.Value
	}
	return values, nil
}

// Save implements [task.Store].
func (s *taskStore) Save(ctx context.Context, values map[string][]byte) error {
	sets := make([]*storage.Operation, 0, len(values))
	for key, value := range values {
		if value == nil {
			sets = append(sets, storage.DeleteOperation(key))
		} else {
			sets = append(sets, storage.SetOperation(key, value))
		}
	}
	return s.client.Batch(ctx, sets...)
}

func (s *taskStore) close(ctx context.Context) error {
	if s == nil {
		return nil
	}
	return s.client.Close(ctx)
}
