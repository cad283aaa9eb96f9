package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

// caller is one keep-alive connection to an extender. It sends requests that
// were encoded beforehand and leaves answers encoded, so that what it measures
// is the extender and the loopback.
type caller struct {
	conn   net.Conn
	reader *bufio.Reader
	answer bytes.Buffer
}

func dial(url string) (*caller, error) {
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		return nil, err
	}
	return &caller{conn: conn, reader: bufio.NewReaderSize(conn, 64<<10)}, nil
}

func (c *caller) close() { _ = c.conn.Close() }

// post sends a request that encode made and returns how long the whole answer
// took. The answer stays valid until the next call.
func (c *caller) post(request []byte) (time.Duration, []byte, error) {
	start := time.Now()
	if _, err := c.conn.Write(request); err != nil {
		return 0, nil, err
	}
	resp, err := http.ReadResponse(c.reader, nil)
	if err != nil {
		return 0, nil, err
	}
	c.answer.Reset()
	_, err = io.Copy(&c.answer, resp.Body)
	took := time.Since(start)
	_ = resp.Body.Close()
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %.200s", resp.Status, c.answer.String())
	}
	return took, c.answer.Bytes(), err
}

// encode makes the bytes of a whole request.
func encode(verb string, args any) ([]byte, error) {
	body, err := json.Marshal(args)
	if err != nil {
		return nil, err
	}
	head := fmt.Sprintf("POST /%s HTTP/1.1\r\nHost: extender\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", verb, len(body))
	return append([]byte(head), body...), nil
}

func encodeFilter(pod *corev1.Pod, nodes []string) ([]byte, error) {
	sent := pod.DeepCopy()
	sent.Kind, sent.APIVersion = "", "" // as kube-scheduler sends it
	return encode("filter", extenderv1.ExtenderArgs{Pod: sent, NodeNames: &nodes})
}

func encodeBind(pod *corev1.Pod, node string) ([]byte, error) {
	return encode("bind", extenderv1.ExtenderBindingArgs{PodName: pod.Name, PodNamespace: pod.Namespace, PodUID: pod.UID, Node: node})
}

// kept returns the nodes that a filter answer keeps.
func kept(answer []byte) ([]string, error) {
	var result extenderv1.ExtenderFilterResult
	if err := json.Unmarshal(answer, &result); err != nil {
		return nil, err
	}
	if result.Error != "" {
		return nil, fmt.Errorf("filter: %s", result.Error)
	}
	if result.NodeNames == nil {
		return nil, nil
	}
	return *result.NodeNames, nil
}

func nodeNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = nodeName(i)
	}
	return names
}
