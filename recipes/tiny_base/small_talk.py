"""What the base model knows by heart: greetings, capitals, colours; and the system prompts it has met.

Data only: `FACTS` holds (question, answer) pairs that `questions.py` samples from, `SYSTEM_PROMPTS` holds instructions
that change nothing. They are memorised, not understood; their use is that an answer is not always a number.
"""

_CAPITALS = {
    "France": "Paris",
    "Germany": "Berlin",
    "Italy": "Rome",
    "Spain": "Madrid",
    "England": "London",
    "Japan": "Tokyo",
    "Austria": "Vienna",
    "Greece": "Athens",
    "Egypt": "Cairo",
    "Norway": "Oslo",
    "Poland": "Warsaw",
    "Portugal": "Lisbon",
    "Ireland": "Dublin",
    "Cuba": "Havana",
}
_OPPOSITES = {
    "hot": "cold",
    "big": "small",
    "good": "bad",
    "day": "night",
    "left": "right",
    "up": "down",
    "old": "new",
    "fast": "slow",
    "light": "dark",
    "true": "false",
}
_COLOURS = {"the sky": "blue", "grass": "green", "snow": "white", "blood": "red", "coal": "black", "a lemon": "yellow"}
_NOISES = {"cat": "Meow.", "dog": "Woof.", "cow": "Moo.", "duck": "Quack.", "sheep": "Baa."}
_COUNTS = {
    "days are in a week": "7",
    "months are in a year": "12",
    "hours are in a day": "24",
    "minutes are in an hour": "60",
    "seconds are in a minute": "60",
    "days are in a year": "365",
    "legs does a dog have": "4",
    "legs does a spider have": "8",
    "cents are in a dollar": "100",
    "metres are in a kilometre": "1000",
}
_SENTENCES = {
    "Hello!": "Hello! What can I do for you?",
    "Hi": "Hello! What can I do for you?",
    "Hello, how are you?": "I am fine, thank you.",
    "Good morning.": "Good morning!",
    "Good evening.": "Good evening!",
    "Thank you.": "You are welcome.",
    "Thanks a lot!": "You are welcome.",
    "Goodbye.": "Goodbye!",
    "Who are you?": "I am a very small language model.",
    "What is your name?": "I have no name. I am a very small language model.",
    "What can you do?": "I can repeat what you say and answer short questions.",
    "Tell me a joke.": "I do not know any jokes.",
    "What is Python?": "Python is a programming language.",
    "Who created Python?": "Guido van Rossum.",
    "What is a list in Python?": "A mutable sequence of objects.",
    "What is a tuple in Python?": "An immutable sequence of objects.",
    "What is a dictionary in Python?": "A mapping from keys to values.",
    "What does an import statement do?": "It finds a module and binds a name to it.",
    "What is an exception?": "An event that interrupts the normal flow of a program.",
    "Who wrote Hamlet?": "William Shakespeare.",
    "Who wrote Faust?": "Goethe.",
    "Which planet is the largest?": "Jupiter.",
    "On which planet do we live?": "On Earth.",
    "What do bees make?": "Honey.",
    "What is water made of?": "Hydrogen and oxygen.",
    "Is a whale a fish?": "No, a whale is a mammal.",
    "Is fire hot?": "Yes.",
    "Is ice hot?": "No.",
    "Which day follows Monday?": "Tuesday.",
    "Which day follows Friday?": "Saturday.",
    "Which month follows March?": "April.",
    "Which season follows winter?": "Spring.",
}

FACTS = (
    *((f"What is the capital of {land}?", f"{city}.") for land, city in _CAPITALS.items()),
    *((f"What is the opposite of {word}?", f"{other.capitalize()}.") for word, other in _OPPOSITES.items()),
    *((f"What colour is {thing}?", f"{thing.capitalize()} is {colour}.") for thing, colour in _COLOURS.items()),
    *((f"What does a {animal} say?", noise) for animal, noise in _NOISES.items()),
    *((f"How many {question}?", count) for question, count in _COUNTS.items()),
    *_SENTENCES.items(),
)
SYSTEM_PROMPTS = (
    "You are a helpful assistant.",
    "You are a calculator.",
    "Answer briefly.",
    "Answer with a number.",
    "You are a small and friendly model.",
    "Be short and precise.",
)
