package bed

import (
	"fmt"
	"testing"
	"time"
)

// Timeout is the usual patience of a wait. It is generous because tests share
// small machines; nothing is slower for it when the condition holds.
const Timeout = 30 * time.Second

const pollInterval = 20 * time.Millisecond

// Eventually polls until check returns nil and fails the test with its last
// error when that takes longer than limit.
func Eventually(t testing.TB, limit time.Duration, what string, check func() error) {
	t.Helper()
	if err := poll(limit, check); err != nil {
		t.Fatalf("%s: not within %v: %v", what, limit, err)
	}
}

// poll is Eventually for callers without a test.
func poll(limit time.Duration, check func() error) error {
	deadline := time.Now().Add(limit)
	for {
		err := check()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(pollInterval)
	}
}

// Unless turns a condition into a check for Eventually.
func Unless(ok bool, format string, args ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf(format, args...)
}
