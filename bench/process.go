package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is a child whose output goes to a log file, and which ends with us.
type process struct {
	cmd     *exec.Cmd
	started time.Time
	log     string
	done    chan struct{}
}

// spawn starts commands from one OS thread that never ends: the parent-death
// signal comes when the thread that forked dies, and Go may end any other.
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

// startProcess runs a program with its output in build/bench/logs/NAME.log.
func (l *lab) startProcess(name, path string, args ...string) (*process, error) {
	logs := filepath.Join(l.out, "logs")
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return nil, err
	}
	log := filepath.Join(logs, name+".log")
	out, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p := &process{cmd: cmd, log: log, done: make(chan struct{}), started: time.Now()}
	if err := spawn()(cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		_ = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// stop kills the process and waits until it is gone.
func (p *process) stop() {
	if p == nil {
		return
	}
	_ = p.cmd.Process.Kill()
	<-p.done
}

// ready polls a URL until it answers 200, and returns how long after the start
// of the process that was.
func (p *process) ready(client *http.Client, url string, limit time.Duration) (time.Duration, error) {
	for {
		resp, err := client.Get(url)
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return time.Since(p.started), nil
			}
		}
		select {
		case <-p.done:
			return 0, fmt.Errorf("%s ended: see %s", p.cmd.Path, p.log)
		default:
		}
		if time.Since(p.started) > limit {
			return 0, fmt.Errorf("%s not ready after %v: see %s", p.cmd.Path, limit, p.log)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// memory returns the process's resident memory and its peak, in MiB.
func (p *process) memory() (rss, peak float64, err error) { return memoryOf(p.cmd.Process.Pid) }

func memoryOf(pid int) (rss, peak float64, err error) {
	file, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 {
			continue
		}
		kib, _ := strconv.ParseFloat(fields[1], 64)
		switch fields[0] {
		case "VmRSS:":
			rss = kib / 1024
		case "VmHWM:":
			peak = kib / 1024
		}
	}
	return rss, peak, lines.Err()
}

// cpuSeconds is the user and system time that the process has used.
func (p *process) cpuSeconds() float64 {
	_, seconds := readStat(p.cmd.Process.Pid)
	return seconds
}

// cpuByProgram is the time that our child processes have used, by program, and
// our own as "bench". Time is a fairer measure than rates on a busy machine.
func cpuByProgram() map[string]float64 {
	total := map[string]float64{}
	self := strconv.Itoa(os.Getpid())
	folders, _ := filepath.Glob("/proc/[0-9]*")
	for _, folder := range folders {
		pid, _ := strconv.Atoi(filepath.Base(folder))
		fields, seconds := readStat(pid)
		switch {
		case pid == os.Getpid():
			total["bench"] += seconds
		case len(fields) > 1 && fields[1] == self:
			total[programName(pid)] += seconds
		}
	}
	return total
}

func programName(pid int) string {
	path, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		return "?"
	}
	return filepath.Base(path)
}

// readStat returns what /proc/PID/stat says after the command, which stands in
// brackets and may hold blanks: the state, the parent, and so on; and the CPU
// time, which is there in hundredths of a second on Linux.
func readStat(pid int) (fields []string, seconds float64) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, 0
	}
	fields = strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 13 {
		return fields, 0
	}
	user, _ := strconv.ParseFloat(fields[11], 64)
	system, _ := strconv.ParseFloat(fields[12], 64)
	return fields, (user + system) / 100
}

// freePort returns a loopback TCP port that was free a moment ago.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
