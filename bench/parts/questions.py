# SPDX-License-Identifier: Apache-2.0
"""Twenty short prompts."""

QUESTIONS = (
    "What is the capital of France?",
    "Write a haiku about rain.",
    "Why is the sky blue?",
    "Tell me a joke.",
    "How do I boil an egg?",
    "What is 17 times 3?",
    "Name three rivers.",
    "Explain photosynthesis.",
    "Who wrote Hamlet?",
    "List the planets.",
    "What is a prime number?",
    "How do birds fly?",
    "Describe a sunset.",
    "Translate hello to French.",
    "What is Python?",
    "Give me a recipe for pancakes.",
    "What causes tides?",
    "Who was Einstein?",
    "Write a short poem about a cat.",
    "What is the speed of light?",
)
