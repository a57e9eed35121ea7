// Command celjudge tells what kube-scheduler says about selectors of devices.
//
// It reads questions as JSON, one a line, {"expression": "…", "devices": [{"driver": "…",
// "attributes": {}, "capacity": {}}]}, and answers each with one line: why the expression cannot be
// compiled, or its estimated cost and for each device a verdict or an error, and what it cost. It
// ends with its input. A question {"rules": {"schema": {}, "object": {}, "old": {}}} is about rules
// of definitions instead (rules.go).
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	resource "k8s.io/api/resource/v1"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/dynamic-resource-allocation/cel"
)

type question struct {
	Expression string   `json:"expression"`
	Devices    []device `json:"devices"`
	Rules      *rules   `json:"rules"`
}

type device struct {
	Driver string `json:"driver"`
	resource.Device
}

type answer struct {
	// Refused says why the API server does not take the expression.
	Refused string `json:"refused,omitempty"`
	// Uncompiled says why the scheduler cannot compile it.
	Uncompiled string   `json:"uncompiled,omitempty"`
	Estimate   uint64   `json:"estimate,omitempty"`
	Results    []result `json:"results,omitempty"`
	// Errors are what rules of a definition say: type, field and text.
	Errors []string `json:"errors,omitempty"`
}

type result struct {
	Verdict bool   `json:"verdict"`
	Error   string `json:"error,omitempty"`
	// Class is "cost" for an evaluation that was too expensive, "runtime" for all other errors.
	Class string `json:"class,omitempty"`
	Cost  uint64 `json:"cost"`
}

func main() {
	if err := answerAll(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func answerAll(questions io.Reader, answers io.Writer) error {
	// The gates that are on in this release.
	compiler := cel.GetCompiler(cel.Features{EnableConsumableCapacity: true})
	lines := bufio.NewReader(questions)
	writer := bufio.NewWriter(answers)
	encoder := json.NewEncoder(writer)
	encoder.SetEscapeHTML(false)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var asked question
			decoder := json.NewDecoder(bytes.NewReader(line))
			decoder.UseNumber()
			if err := decoder.Decode(&asked); err != nil {
				return err
			}
			if asked.Rules != nil {
				given, err := judgeRules(*asked.Rules)
				if err != nil {
					given = answer{Refused: err.Error()}
				}
				if err := encoder.Encode(given); err != nil {
					return err
				}
				if err := writer.Flush(); err != nil {
					return err
				}
				continue
			}
			given := answer{Refused: refused(compiler.CompileCELExpression, asked.Expression)}
			compiled := compiler.CompileCELExpression(asked.Expression, cel.Options{})
			if compiled.Error != nil {
				given.Uncompiled = compiled.Error.Error()
			} else {
				given.Estimate = compiled.MaxCost
				for _, device := range asked.Devices {
					given.Results = append(given.Results, judge(compiled, device))
				}
			}
			if err := encoder.Encode(given); err != nil {
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

// refused is why an API server would not store the expression, "" if it would.
func refused(compile func(string, cel.Options) cel.CompilationResult, expression string) string {
	if len(expression) > resource.CELSelectorExpressionMaxLength {
		return "too long"
	}
	kind := environment.NewExpressions
	compiled := compile(expression, cel.Options{EnvType: &kind})
	if compiled.Error != nil {
		return compiled.Error.Error()
	}
	if compiled.MaxCost > resource.CELSelectorExpressionMaxCost {
		return "too complex"
	}
	return ""
}

func judge(compiled cel.CompilationResult, device device) result {
	verdict, details, err := compiled.DeviceMatches(context.Background(), cel.Device{
		Driver:                   device.Driver,
		AllowMultipleAllocations: device.AllowMultipleAllocations,
		Attributes:               device.Attributes,
		Capacity:                 device.Capacity,
	})
	given := result{Verdict: verdict}
	if details != nil && details.ActualCost() != nil {
		given.Cost = *details.ActualCost()
	}
	if err != nil {
		given.Error, given.Class = err.Error(), "runtime"
		if strings.Contains(given.Error, "actual cost limit exceeded") {
			given.Class = "cost"
		}
	}
	return given
}
