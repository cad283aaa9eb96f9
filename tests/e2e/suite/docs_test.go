package suite

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

const root = "../../.."

var (
	fenced  = regexp.MustCompile("(?ms)^```.*?^```$")
	heading = regexp.MustCompile(`(?m)^#{1,6} +(.*)$`)
	link    = regexp.MustCompile(`\[([^][]*)\]\(([^()\s]+)\)`)
	named   = regexp.MustCompile(`(-run )?\b(Test[A-Z]\w*)(\*?)`)
)

// pages are the texts for people: those of docs/, and README.md of any folder.
func pages(t *testing.T) (paths []string) {
	t.Helper()
	for _, pattern := range []string{"README.md", "docs/*.md", "examples/*.md", "manifests/charts/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v, %v", pattern, found, err)
		}
		paths = append(paths, found...)
	}
	return paths
}

// anchors are a page's headings as GitHub names them.
func anchors(page string) (names []string) {
	for _, m := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(page, ""), -1) {
		text := link.ReplaceAllString(m[1], "$1")
		names = append(names, strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, text))
	}
	return names
}

// Every link of a page leads to a file that is there, and to a heading in it.
func TestDocsLinks(t *testing.T) {
	for _, path := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(fenced.ReplaceAllString(read(t, path), ""), -1) {
			file, anchor, _ := strings.Cut(m[2], "#")
			if strings.Contains(file, "://") {
				continue
			}
			to := path
			if file != "" {
				to = filepath.Join(filepath.Dir(path), file)
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s: %s: %v", path, m[2], err)
			} else if anchor != "" && !slices.Contains(anchors(read(t, to)), anchor) {
				t.Errorf("%s: %s: no such heading", path, m[2])
			}
		}
	}
}

// Every test that a page names as its proof exists. One with a * at the end, or
// after -run, stands for all that begin so.
func TestDocsNameTests(t *testing.T) {
	sources, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var tests string
	for _, source := range sources {
		tests += read(t, source)
	}
	for _, path := range pages(t) {
		for _, m := range named.FindAllStringSubmatch(read(t, path), -1) {
			function := "func " + m[2]
			if m[1] == "" && m[3] == "" {
				function += "("
			}
			if !strings.Contains(tests, function) {
				t.Errorf("%s: no test %s", path, m[0])
			}
		}
	}
}
