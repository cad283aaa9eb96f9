package main

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
)

// snapshotWriter writes a file as `kubectl get nodes,pods -A -o json` does, one
// object at a time: a large cluster is not held in memory.
type snapshotWriter struct {
	file  *os.File
	out   *bufio.Writer
	comma string
	err   error
}

func (l *lab) newSnapshot(name string) (*snapshotWriter, string, error) {
	path := filepath.Join(l.out, name)
	file, err := os.Create(path)
	if err != nil {
		return nil, "", err
	}
	w := &snapshotWriter{file: file, out: bufio.NewWriterSize(file, 1<<20)}
	_, w.err = w.out.WriteString(`{"apiVersion":"v1","kind":"List","items":[`)
	return w, path, nil
}

// add appends an object. The first error is kept for close.
func (w *snapshotWriter) add(object any) {
	if w.err != nil {
		return
	}
	data, err := json.Marshal(object)
	if err != nil {
		w.err = err
		return
	}
	_, _ = w.out.WriteString(w.comma) // bufio keeps its error for Flush
	_, _ = w.out.Write(data)
	w.comma = "\n,"
}

func (w *snapshotWriter) addPods(pods []*corev1.Pod) {
	for _, pod := range pods {
		w.add(pod)
	}
}

func (w *snapshotWriter) close() error {
	_, _ = w.out.WriteString("]}\n")
	if err := w.out.Flush(); w.err == nil {
		w.err = err
	}
	if err := w.file.Close(); w.err == nil {
		w.err = err
	}
	return w.err
}
