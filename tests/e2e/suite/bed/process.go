package bed

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// Process is a child process whose output goes to its own log file. It dies
// with the test binary, however that ends.
type Process struct {
	name string
	log  string
	cmd  *exec.Cmd

	done chan struct{} // closed once the process has been reaped
	err  error         // the outcome of Wait; read only after done is closed
}

// spawn starts commands from one OS thread that never ends: the kernel sends
// the parent-death signal when the *thread* that forked the child dies, and the
// Go runtime may end any other thread at will.
var spawn = sync.OnceValue(func() func(*exec.Cmd) error {
	type request struct {
		cmd    *exec.Cmd
		result chan error
	}
	requests := make(chan request)
	go func() {
		runtime.LockOSThread()
		for r := range requests {
			r.result <- r.cmd.Start()
		}
	}()
	return func(cmd *exec.Cmd) error {
		r := request{cmd, make(chan error, 1)}
		requests <- r
		return <-r.result
	}
})

// startProcess runs path with args and appends its output to dir/name.log, so
// that the log of a restarted process continues the old one.
func startProcess(dir, name, path string, args ...string) (*Process, error) {
	log := filepath.Join(dir, name+".log")
	out, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer out.Close()

	cmd := exec.Command(path, args...)
	cmd.Dir = dir
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	fmt.Fprintf(out, "=== %s %q\n", path, args)
	if err := spawn()(cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p := &Process{name: name, log: log, cmd: cmd, done: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// Exited says whether the process has ended, and with which error.
func (p *Process) Exited() (bool, error) {
	select {
	case <-p.done:
		return true, p.err
	default:
		return false, nil
	}
}

// Signal sends sig; a process that is already gone is not an error.
func (p *Process) Signal(sig syscall.Signal) {
	_ = p.cmd.Process.Signal(sig)
}

// Stop asks the process to end and kills it when it takes longer than grace.
func (p *Process) Stop(grace time.Duration) {
	if p == nil {
		return
	}
	p.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(grace):
		p.Kill()
	}
}

// Kill ends the process with SIGKILL and waits until it is gone.
func (p *Process) Kill() {
	if p == nil {
		return
	}
	p.Signal(syscall.SIGKILL)
	<-p.done
}

// waitReady polls ready until it answers nil, the process ends, or the deadline
// passes.
func (p *Process) waitReady(limit time.Duration, ready func() error) error {
	deadline := time.Now().Add(limit)
	for {
		err := ready()
		if err == nil {
			return nil
		}
		if gone, exit := p.Exited(); gone {
			return fmt.Errorf("%s ended before it was ready (%v); its log ends:\n%s", p.name, exit, tail(p.log, 3000))
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s not ready after %v: %w; its log ends:\n%s", p.name, limit, err, tail(p.log, 3000))
		}
		time.Sleep(30 * time.Millisecond)
	}
}

// tail returns the last n bytes of a file, for messages.
func tail(path string, n int) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	if len(data) > n {
		data = data[len(data)-n:]
	}
	return string(data)
}
