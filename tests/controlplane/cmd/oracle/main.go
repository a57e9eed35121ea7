// Command oracle tells what kube-scheduler's own default plugins say about a snapshot of a cluster.
//
// It reads snapshots as JSON, one a line, and answers each with one line: the list of verdicts on
// its pending pods, in the format of the conformance corpora, or {"error": "why"} when the snapshot
// cannot be judged. It ends with its input.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

func main() {
	klog.SetLogger(klog.Logger{})
	metrics.Register()
	if err := answer(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// answer judges every line of the questions.
func answer(questions io.Reader, answers io.Writer) error {
	lines := bufio.NewReader(questions)
	writer := bufio.NewWriter(answers)
	encoder := json.NewEncoder(writer)
	encoder.SetEscapeHTML(false)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			if err := encoder.Encode(answerOne(line)); err != nil {
				return err
			}
			if err := writer.Flush(); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// answerOne is the answer to one line: verdicts, or what was wrong with the question.
func answerOne(line []byte) any {
	var snapshot Snapshot
	if err := json.Unmarshal(line, &snapshot); err != nil {
		return map[string]string{"error": err.Error()}
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	verdicts, err := judge(ctx, &snapshot)
	if err != nil {
		return map[string]string{"error": err.Error()}
	}
	return verdicts
}
