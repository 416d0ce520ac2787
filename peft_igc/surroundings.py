"""What may stand around a request, and how its answer may be put: one pool that is split elsewhere (`wording`).

Greetings, numbers of a list, sentences before, closings behind, system prompts. They are drawn apart from the
request, so that each combines with every phrasing; their numbers have nothing to do with it, and what they count is in
no story. Fields: {n} one to three digits, {k} {j} small numbers, {jj} {mm} {dd} two digits, {date} {month} {year}
{clock}, {name} {city}. In answers: {r} the result, {e} the calculation in symbols, {a} {b} its operands, {thing} what
was counted.
Only data, no logic. Try it: `pytest tests/test_suites.py -k around`.
"""

__all__ = [
    "ANSWERS",
    "CLOSINGS",
    "COUNTED",
    "CUES",
    "GREETINGS",
    "LISTS",
    "NUMBER_WORDS",
    "OBJECTS",
    "PEOPLE",
    "SENTENCES",
    "SYSTEMS",
]

# fmt: off

# Before a request, with the white space behind them.
GREETINGS = (
    "Hello. ", "Hi. ", "Hi there! ", "Hello there! ", "Good morning. ", "Good evening. ", "Hey! ", "Dear assistant,\n",
    "Excuse me. ", "Hello, I am {name}. ", "Hi, my name is {name}. ", "OK. ", "OK, next: ", "Now this: ",
    "Another one: ", "Please help me. ", "I have a question. ", "One more question: ", "Thanks! And now: ",
    "I am stuck. ", "For my homework: ", "This is for school. ", "{name} asks: ", "Just a moment. ", "So: ", "Now: ",
    "Listen: ", "A small problem: ",
)
LISTS = (
    "{k}. ", "{k}) ", "({k}) ", "{k}: ", "[{k}] ", "Question {k}: ", "Question {k}. ", "Exercise {k}: ",
    "Exercise {k}\n", "Task {k}: ", "Task {k}. ", "No. {k}: ", "Problem {k}: ", "Problem {k}. ", "Number {k}: ",
    "Part {k}: ", "Item {k}: ", "Page {k}, question {j}: ", "Lesson {k}, task {j}. ", "Chapter {k}. ",
    "Test {k}, part {j}: ", "Question {k} of {j}: ", "Q{k}: ", "Step {k}: ", "Round {k}. ", "Level {k}: ",
    "Section {k}\n\n", "- {k}: ", "Line {k}. ", "Puzzle {k}: ", "Homework {k}. ", "Homework, page {k}: ",
    "Assignment {k}: ", "Query {k}: ", "Prompt {k}: ", "Case {k}. ", "Example {k}: ", "Row {k}: ", "Job {k}: ",
    "Turn {k}. ", "Day {k}. ", "Message {k} of {j}: ", "Slide {k}: ", "Card {k}: ", "#{k}: ", "<{k}> ", "* {k}. ",
    "Entry {k}\n", "Request {k}: ",
)

# Before a request, or behind it.
SENTENCES = (
    "There are {n} chairs in the room.", "There are {n} people in the room.", "I was born in {year}.",
    "My phone has {n} apps.", "It is {k} o'clock.", "It is {clock}.", "Today is {date}.", "The date is {date}.",
    "We are on page {n}.", "I live at {n} Main Street.", "My house has the number {n}.", "My dog is {k} years old.",
    "I am {k} years old.", "I have {k} brothers and {j} sisters.", "The bus {n} is late.", "We met in {year}.",
    "My room number is {n}.", "It is {k} degrees outside.", "It is {k}.{j} degrees outside.",
    "The battery is at {k}%.", "I bought this phone in {month} {year}.", "I have asked {n} people already.",
    "This is my question number {n}.", "My train leaves at {clock}.", "{name} is {k} years old.",
    "{name} was born on {date}.", "The shop opens at {k}.", "I woke up at {clock} today.", "The room is {k}m long.",
    "My score was {n} to {j}.", "I have {k} minutes left.", "This costs {k}.{jj} dollars.",
    "Flight {n} to {city} is on time.", "It rained for {k} days in {city}.", "We won {k}:{j} yesterday.",
    "The exam has {n} questions.", "My class has {n} students.", "I weigh {n}kg.", "{name} called me {k} times.",
    "I slept {k} hours last night.", "The code of my bike is {n}.", "I am in room {n} on floor {k}.",
    "On {date} I moved to {city}.", "My car is from {year}.", "I read {n} pages of a novel.",
    "The film lasts {n} minutes.", "I am writing this on {month} {k}, {year}.", "The temperature is -{k} degrees.",
    "The weather is fine.", "I like numbers.", "My name is {name}.", "{name} likes {city}.", "I am from {city}.",
    "It is raining in {city}.",
)

# Behind a request.
CLOSINGS = (
    "Thanks.", "Thank you!", "Thank you, {name}.", "Please be quick.", "Answer with the number only.",
    "I need it at {k} o'clock.", "I need it before {clock}.", "Please answer within {n} seconds.",
    "This is for my class of {n} students.", "I asked {name} already.", "My deadline is {date}.",
    "You have {k} minutes.", "This is question {k} of {j}.", "I will ask {n} more questions after this.",
    "No explanation, please.", "Send it to room {n}.", "Reply by {month} {k}.", "I have to leave at {clock}.",
    "It is urgent.", "(Question {k} of {j})", "(page {n})", "({year})", "Give me only the result.",
    "It is for a test on {date}.", "My teacher is {k} minutes late.", "{name} got it wrong {k} times.",
    "I got it wrong in {year}.", "Do not round.",
)

# System prompts.
SYSTEMS = (
    "You are a helpful assistant.", "Answer with the number only.", "You are a careful assistant. Keep answers short.",
    "Be brief.", "You answer questions about numbers and text.", "You are a calculator.", "Answer briefly.",
    "Answer with a number.", "You are a small and friendly model.", "Be short and precise.",
    "Today is {date}. You are a helpful assistant.", "Cutting Knowledge Date: {month} {year}\nToday Date: {date}\n\n",
    "Cutting Knowledge Date: {month} {year}\nToday Date: {date}\n\nYou are a helpful assistant.",
    "Knowledge cutoff: {year}-{mm}\nCurrent date: {year}-{mm}-{dd}", "Current date: {year}-{mm}-{dd}",
    "Today Date: {date}", "The current time is {clock}.", "The user {name} is {n} years old.",
    "You are assistant number {n}.", "You may use up to {n} words.", "Answer in at most {k} words.",
    "You are version {k}.{j} of an assistant.", "Session {n} started on {date} at {clock}.",
    "The user's name is {name}. The user lives in {city}.", "You help {n} customers a day.",
    "Rules:\n1. Be polite.\n2. Be brief.\n3. Do not guess.", "Date: {dd}.{mm}.{year}",
    "Date: {mm}/{dd}/{year}\nTime: {clock}", "You are a teacher of a class with {n} children.",
    "Your shop closes at {k} o'clock and has {n} customers.", "It is {month} {k}, {year}. You talk to {name}.",
    "Ticket {n}. Priority {k}.",
)

# How an answer may be put besides the bare number.
ANSWERS = (
    "The answer is {r}.", "The result is {r}.", "It is {r}.", "That is {r}.", "That makes {r}.", "{r}.", "= {r}",
    "Answer: {r}", "Result: {r}", "So the answer is {r}.", "You get {r}.", "I get {r}.", "The correct answer is {r}.",
    "{e} = {r}", "{e} = {r}.", "We calculate {e} = {r}.", "{e} = {r}. So the answer is {r}.",
    "{r}. So the answer is {r}.", "{r}, because {e} = {r}.", "The answer is {r}. Indeed, {e} = {r}.",
    "{r} is the answer.", "{r}. Is there anything else?", "Sure. {e} = {r}.", "Of course: {r}",
    "Let me see. {e} is {r}.", "The numbers are {a} and {b}. The answer is {r}.",
)
COUNTED = (
    "That makes {r} {thing}.", "There are {r} {thing}.", "{r} {thing}", "It is {r} {thing}.",
    "{r} {thing} in all, so the answer is {r}.", "The answer is {r} {thing}.",
)

# Behind a request, asking for such an answer.
CUES = (
    "Answer in a sentence.", "Reply with a full sentence.", "Answer in a full sentence, please.",
    "Write a short sentence.", "Explain your answer briefly.", "Say it in a sentence.",
)

# The stories' things, people and numbers that are no numerals.
OBJECTS = (
    "apples", "books", "coins", "eggs", "marbles", "oranges", "pens", "stamps", "stones", "tickets", "balls",
    "bottles", "buttons", "cards", "cups", "flowers", "lemons", "letters", "nuts", "pears", "photos", "plates",
    "rings", "roses", "shells", "toys",
)
PEOPLE = (
    "Anna", "Ben", "Clara", "David", "Emma", "Felix", "Grace", "Henry", "Ida", "Jack", "Laura", "Max", "Nina", "Tom",
    "Sarah", "Peter", "Maria", "John", "Lucy", "Paul", "Olga", "Ali", "Mary", "Sam",
)
NUMBER_WORDS = (
    "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "twenty", "fifty",
    "one hundred", "a thousand",
)
# fmt: on
