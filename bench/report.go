package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// report is what one benchmark found out: a table for people, the same rows as
// JSON for programs.
type report struct {
	Name    string   `json:"name"`
	Setting setting  `json:"setting"`
	Notes   []string `json:"notes"`
	Rows    []row    `json:"rows"`

	columns []string
}

// row maps a column to its value: a string, a number, or nil for none.
type row map[string]any

// setting is what a figure means nothing without.
type setting struct {
	Started    time.Time `json:"started"`
	Kernel     string    `json:"kernel"`
	CPU        string    `json:"cpu"`
	Cores      int       `json:"cores"`
	Go         string    `json:"go"`
	Berth      string    `json:"berth"`
	LoadBefore string    `json:"load_average_before"`
	LoadAfter  string    `json:"load_average_after"`
	Quick      bool      `json:"quick"` // fewer repetitions and pods
}

func (l *lab) newReport(name string, columns ...string) *report {
	return &report{Name: name, columns: columns, Rows: []row{}, Setting: setting{
		Started:    time.Now().UTC(),
		Kernel:     firstLine("/proc/sys/kernel/osrelease"),
		CPU:        cpuModel(),
		Cores:      runtime.NumCPU(),
		Go:         runtime.Version(),
		Berth:      l.berthVersion,
		LoadBefore: firstLine("/proc/loadavg"),
		Quick:      l.quick,
	}}
}

// note adds a sentence about how the figures came about.
func (r *report) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// add appends a row; the values are in the order of the columns.
func (r *report) add(values ...any) {
	cells := row{}
	for i, value := range values {
		if number, ok := value.(float64); ok {
			if math.IsNaN(number) || math.IsInf(number, 0) {
				value = nil
			} else {
				value = significant(number)
			}
		}
		cells[r.columns[i]] = value
	}
	r.Rows = append(r.Rows, cells)
	fmt.Fprintf(os.Stderr, "%s: %v\n", r.Name, values)
}

// write prints the table and leaves the JSON file.
func (r *report) write(folder string) error {
	r.Setting.LoadAfter = firstLine("/proc/loadavg")
	fmt.Printf("\n== %s ==\n", r.Name)
	s := r.Setting
	fmt.Printf("%s; %d cores, %s; Linux %s; %s; load average %s before, %s after\n",
		s.Berth, s.Cores, s.CPU, s.Kernel, s.Go, s.LoadBefore, s.LoadAfter)
	for _, note := range r.Notes {
		fmt.Println(note)
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(table, strings.Join(r.columns, "\t"))
	for _, cells := range r.Rows {
		texts := make([]string, len(r.columns))
		for i, column := range r.columns {
			if texts[i] = "-"; cells[column] != nil {
				texts[i] = fmt.Sprint(cells[column])
			}
		}
		fmt.Fprintln(table, strings.Join(texts, "\t"))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, r.Name+".json"), append(data, '\n'), 0o644)
}

// significant rounds to four digits: more would be noise.
func significant(x float64) float64 {
	if x == 0 {
		return 0
	}
	scale := math.Pow(10, 3-math.Floor(math.Log10(math.Abs(x))))
	return math.Round(x*scale) / scale
}

// quantile returns the q-th quantile by the nearest rank.
func quantile(samples []time.Duration, q float64) time.Duration {
	if len(samples) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(samples))
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

func firstLine(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(data), "\n")
	return line
}

func cpuModel() string {
	data, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(data)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}
