package process

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"
)

func TestRunMeasuresAndStops(t *testing.T) {
	ready := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer ready.Close()
	p, err := Run(context.Background(), Command{
		Path: "/bin/sh", Args: []string{"-c", "while :; do :; done"}, Ready: ready.URL,
		Log: filepath.Join(t.TempDir(), "log"),
	})
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(10 * time.Second)
	for cpu := time.Duration(0); cpu < 20*time.Millisecond; {
		if cpu, err = p.CPU(); err != nil || time.Now().After(deadline) {
			t.Fatalf("CPU = %v, %v of a busy loop", cpu, err)
		}
	}
	if rss, err := p.RSS(); err != nil || rss < 100<<10 {
		t.Errorf("RSS = %d, %v", rss, err)
	}
	if n, err := p.Threads(); err != nil || n != 1 {
		t.Errorf("Threads = %d, %v", n, err)
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
}

func TestRunSaysThatItEnded(t *testing.T) {
	_, err := Run(context.Background(), Command{
		Path: "/bin/false", Ready: "http://127.0.0.1:1/", Log: filepath.Join(t.TempDir(), "log"),
	})
	if err == nil {
		t.Error("a program that ends at once was called ready")
	}
}

func TestParseStat(t *testing.T) {
	got, err := parseStat([]byte("42 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 30 12 0 0"))
	if want := 420 * time.Millisecond; err != nil || got != want {
		t.Errorf("parseStat = %v, %v, want %v", got, err, want)
	}
	if _, err := parseStat([]byte("nonsense")); err == nil {
		t.Error("nonsense was parsed")
	}
}
